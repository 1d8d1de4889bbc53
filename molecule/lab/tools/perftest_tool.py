"""What ib_write_bw and ib_write_lat of a lab host share: two ends that really meet over TCP, and perftest's report.

Figures come from the state of both hosts: the slower end counts. Bytes and errors show in the ports' counters, those
of a device looped back do not, as they never reach the port. A round runs hundreds of these on two cores: what they
have to know stands ready in a file for each device, and nothing is imported that takes longer than the test itself.
"""

from __future__ import annotations

import _socket as socket
import fcntl
import sys

PLACE = __file__.rsplit("/", 2)[0]
RULE = "-" * 87
# Option and whether a value follows, by what it is called here.
OPTIONS = {
    "-d": "device",
    "-p": "port",
    "-s": "size",
    "-q": "queue_pairs",
    "-D": "seconds",
    "-n": "iterations",
    "-x": "gid",
    "--tclass": "tclass",
    "--use_cuda": "gpu",
    "--bind_source_ip": "listen",
}
FLAGS = ("-F", "--report_gbits", "--use_cuda_dmabuf")
HELP = """Usage:
  {0}            start a server and wait for connection
  {0} <host>     connect to server at <host>

Options:
  -d, --ib-dev=<dev>  Use IB device <dev> (default first device found)
      --bind_source_ip  Source IP of the interface used for connection establishment.
      --report_gbits  Report Max/Average BW of test in Gbit/sec (instead of MiB/sec)
      --tclass=<value>  Set the Traffic Class in GRH (if GRH is in use)
      --use_cuda=<cuda device id> Use CUDA specific device for GPUDirect RDMA testing
      --use_cuda_dmabuf Use CUDA DMA-BUF for GPUDirect RDMA testing
"""


def arguments(tool: str, argv: list[str], lacks: list[str]) -> dict[str, str]:
    """Return the options by name; what is not simulated, or what this build ``lacks``, is refused."""
    given = {"port": "18515", "size": "65536" if tool == "ib_write_bw" else "2", "queue_pairs": "1", "gid": "3"}
    given.update(seconds="0", iterations="0", tclass="0")
    words = [part for word in argv for part in (word.split("=", 1) if word.startswith("--") else [word])]
    while words:
        word = words.pop(0)
        if word in lacks:
            sys.exit(f"{tool}: unrecognized option '{word}'\n Invalid Command or flag.")
        if word == "--use_cuda_dmabuf" and "gpu" not in given:
            sys.exit("CUDA DMA-BUF cannot be used without CUDA")
        if word in OPTIONS and words:
            given[OPTIONS[word]] = words.pop(0)
        elif not word.startswith("-") and not words:
            given["server"] = word
        elif word not in FLAGS:
            sys.exit(f"{tool} of the lab does not simulate: {' '.join(argv)}")
    return given


def rail_of(device: str) -> dict[str, str]:
    """Return what the host's state says of a rail, nothing of a device that is not there."""
    try:
        with open(f"{PLACE}/root/perftest/{device}", encoding="ascii") as file:  # noqa: PTH123 -- see above
            return dict(line.rstrip("\n").split("=", 1) for line in file)
    except FileNotFoundError:
        return {}


def run(tool: str, argv: list[str]) -> tuple[str, int]:
    """Return what one end prints and its status."""
    lacks = rail_of("fault").get("lacks", "").split()
    if argv == ["--help"]:
        return "".join(f"{line}\n" for line in HELP.format(tool).splitlines() if not _lacking(line, lacks)), 1
    given = arguments(tool, argv, lacks)
    mine = rail_of(given.get("device", ""))
    if not mine:
        return f" IB device {given.get('device')} not found\n Unable to find the Infiniband/RoCE device\n", 1
    if mine["down"]:
        return " Port number 1 state is Down\n Couldn't set the link layer\n Couldn't get context for the device\n", 1
    waiting = ""
    if "server" in given:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.connect((given["server"], int(given["port"])))
        except OSError:
            return f" Couldn't connect to {given['server']}:{given['port']}\n Unable to open file descriptor\n", 1
    else:
        waiting = "\n" + "*" * 36 + "\n* Waiting for client to connect... *\n" + "*" * 36 + "\n"
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((given.get("listen", ""), int(given["port"])))
        listener.listen(1)
        connection = socket.socket(fileno=listener._accept()[0])
    connection.send(f"{mine['host']} {mine['gbps']} {mine['us']} {mine['qpn']}\n".encode())
    host, gbps, micros, qpn = connection.recv(200).decode().split()
    slower, longer = min(float(gbps), float(mine["gbps"])), max(float(micros), float(mine["us"]))
    size = int(given["size"])
    done = int(given["iterations"]) or int(int(given["seconds"]) * slower * 1e9 / 8 / size)
    if host != mine["host"]:
        count(mine, given, done * size)
    # Both have counted before either ends.
    connection.send(b"\n")
    connection.recv(1)
    table = bandwidth(given, done, slower) if tool == "ib_write_bw" else latency(given, done, longer)
    before, after = cuda(given)
    return waiting + before + heading(tool, given, (int(mine["qpn"]), int(qpn)), mine) + table + after, 0


def _lacking(line: str, lacks: list[str]) -> bool:
    words = line.replace("=", " ").split()
    return bool(words) and words[0] in lacks


def cuda(given: dict[str, str]) -> tuple[str, str]:
    """Return what is told of a GPU's memory before a report and after it, nothing where the host's is used."""
    if "gpu" not in given:
        return "", ""
    gpu = given["gpu"]
    before = f"initializing CUDA\n\nPicking device No. {gpu}\ncreating CUDA Ctx\nCUDA device integrated: 0\n"
    return before, "deallocating GPU buffer 00007f3c2a910000\ndestroying current CUDA Ctx\n"


def heading(tool: str, given: dict[str, str], qpns: tuple[int, int], mine: dict[str, str]) -> str:
    """Return what stands before the figures, as perftest 6 prints it of a RoCE port."""
    name = "RDMA_Write BW Test" if tool == "ib_write_bw" else "RDMA_Write Latency Test"
    address = ":".join(part.zfill(2) for part in (mine["ip"] or "0.0.0.0").split("."))
    local, remote = (
        f" {side} address: LID 0000 QPN 0x{qpn:04x} PSN 0x{qpn * 7919 & 0xFFFFFF:06x} "
        "RKey 0x1fff00 VAddr 0x007f3c2a910000\n"
        f" GID: 00:00:00:00:00:00:00:00:00:00:255:255:{address}\n"
        for side, qpn in zip(("local", "remote"), qpns, strict=True)
    )
    return (
        f"{RULE}\n                    {name}\n"
        f" Dual-port       : OFF\t\tDevice         : {given['device']}\n"
        f" Number of qps   : {given['queue_pairs']}\t\tTransport type : IB\n"
        " Connection type : RC\t\tUsing SRQ      : OFF\n"
        " PCIe relax order: ON\t\tLock-free      : OFF\n"
        " ibv_wr* API     : ON\t\tUsing Enhanced Reorder      : OFF\n"
        " TX depth        : 128\n CQ Moderation   : 100\n CQE Poll Batch  : 16\n Mtu             : 4096[B]\n"
        f" Link type       : Ethernet\n GID index       : {given['gid']}\n Max inline data : 0[B]\n"
        f" rdma_cm QPs\t : OFF\n Data ex. method : Ethernet\n{RULE}\n{local}{remote}{RULE}\n"
    )


def bandwidth(given: dict[str, str], done: int, gbps: float) -> str:
    """Return the figures of ib_write_bw; a run by time knows no peak."""
    peak = gbps if given["seconds"] == "0" else 0.0
    rate = gbps * 1e3 / 8 / int(given["size"])
    return (
        " #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]\n"
        f" {given['size']:<10} {done:<16} {peak:.2f}              {gbps:.2f}\t\t     {rate:.6f}\n{RULE}\n"
    )


def latency(given: dict[str, str], done: int, micros: float) -> str:
    """Return the figures of ib_write_lat."""
    columns = " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    values = "".join(f"{micros * factor:<15.2f}" for factor in (0.95, 2.5, 1, 1.02))
    tails = f"{micros * 0.03:<18.2f}{micros * 1.2:<24.2f}{micros * 2.5:.2f}"
    return (
        f"{columns}   99% percentile[usec]   99.9% percentile[usec] \n"
        f" {given['size']:<7} {done:<14} {values}{tails}\n{RULE}\n"
    )


def count(mine: dict[str, str], given: dict[str, str], size: int) -> None:
    """Let the port's counters grow by what was written and what came back (acknowledgements)."""
    priority = mine.get(f"dscp{int(given['tclass']) >> 2}", "0")
    sent, received = (size, size // 2000) if "server" in given else (size // 2000, size)
    more = {f"tx_prio{priority}_bytes": sent, f"rx_prio{mine['seen'] or priority}_bytes": received}
    with open(f"{PLACE}/root/ethtool/{mine['interface']}", "r+", encoding="ascii") as file:  # noqa: PTH123
        # Both directions of a rail may count at the same time.
        fcntl.flock(file, fcntl.LOCK_EX)
        lines = [line.rstrip("\n").partition(": ") for line in file]
        file.seek(0)
        file.write("".join(f"{n}{c}{int(v) + more.get(n.strip(), 0) if c else ''}\n" for n, c, v in lines))
        file.truncate()
    if mine["lost"]:
        path = f"{PLACE}/root/sys/class/infiniband/{given['device']}/ports/1/hw_counters/out_of_sequence"
        with open(path, "r+", encoding="ascii") as file:  # noqa: PTH123
            fcntl.flock(file, fcntl.LOCK_EX)
            before = int(file.read())
            file.seek(0)
            file.write(f"{before + int(mine['lost'])}\n")


def main(tool: str) -> None:
    """Run as one end of a test, unless the state says that the tool is broken."""
    if rail_of("fault").get(tool):
        import lab_tool  # noqa: PLC0415 -- see above

        lab_tool.main(tool, lambda _, argv: run(tool, list(argv)))
    text, status = run(tool, sys.argv[1:])
    sys.stdout.write(text)
    sys.exit(status)
