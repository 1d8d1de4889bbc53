/* A stand-in for NVIDIA's libcuda.so.1: the part that perftest calls, with GPUs whose memory is the host's.
 *
 * Functions and numbers are those of the CUDA driver API (cuda.h of CUDA 12). LAB_GPUS in the environment is how many
 * GPUs there are, eight if it is not set. DMA-BUF handles are files in memory: a driver that imports DMA-BUF refuses
 * them, one that does not know the call refuses it before.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { OK = 0, INVALID_VALUE = 1, OUT_OF_MEMORY = 2, INVALID_DEVICE = 101, OPERATING_SYSTEM = 304 };
enum { INTEGRATED = 18, PCI_BUS_ID = 33, PCI_DEVICE_ID = 34, DMA_BUF_SUPPORTED = 124 };
enum { PAGE = 65536 };

static int gpus(void)
{
	const char *told = getenv("LAB_GPUS");

	return told ? atoi(told) : 8;
}

int cuInit(unsigned int flags)
{
	return flags ? INVALID_VALUE : OK;
}

int cuDeviceGetCount(int *count)
{
	*count = gpus();
	return OK;
}

int cuDeviceGet(int *device, int number)
{
	*device = number;
	return number >= 0 && number < gpus() ? OK : INVALID_DEVICE;
}

int cuDeviceGetByPCIBusId(int *device, const char *address)
{
	unsigned int domain, bus;

	if (sscanf(address, "%x:%x:", &domain, &bus) != 2)
		return INVALID_VALUE;
	return cuDeviceGet(device, (int)(bus >> 4) - 1);
}

int cuDeviceGetName(char *name, int size, int device)
{
	snprintf(name, size, "host memory for GPU %d", device);
	return OK;
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
	*value = attribute == PCI_BUS_ID ? (device + 1) << 4 : attribute == DMA_BUF_SUPPORTED;
	return OK;
}

int cuCtxCreate_v2(void **context, unsigned int flags, int device)
{
	static int contexts[64];

	if (device < 0 || device >= gpus() || device >= 64)
		return INVALID_DEVICE;
	*context = &contexts[device];
	return OK;
}

int cuCtxSetCurrent(void *context)
{
	return context ? OK : INVALID_VALUE;
}

int cuCtxDestroy_v2(void *context)
{
	return context ? OK : INVALID_VALUE;
}

int cuMemAlloc_v2(uint64_t *address, size_t size)
{
	void *memory = aligned_alloc(PAGE, (size + PAGE - 1) / PAGE * PAGE);

	*address = (uintptr_t)memory;
	return memory ? OK : OUT_OF_MEMORY;
}

int cuMemFree_v2(uint64_t address)
{
	free((void *)(uintptr_t)address);
	return OK;
}

int cuMemAllocHost_v2(void **memory, size_t size)
{
	return cuMemAlloc_v2((uint64_t *)memory, size);
}

int cuMemFreeHost(void *memory)
{
	return cuMemFree_v2((uintptr_t)memory);
}

int cuMemcpy(uint64_t to, uint64_t from, size_t size)
{
	memcpy((void *)(uintptr_t)to, (void *)(uintptr_t)from, size);
	return OK;
}

int cuMemcpyDtoD_v2(uint64_t to, uint64_t from, size_t size)
{
	return cuMemcpy(to, from, size);
}

int cuMemGetHandleForAddressRange(void *handle, uint64_t address, size_t size, int kind, unsigned long long flags)
{
	int file = memfd_create("gpu", 0);

	if (file < 0 || ftruncate(file, (off_t)size))
		return OPERATING_SYSTEM;
	*(int *)handle = file;
	return OK;
}
