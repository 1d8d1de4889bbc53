"""Campaigns against simulated fleets: how often the right node is blamed.

A fleet is made of faults (faults.py; in files: fleet_file.py) and answers rounds (fleet.py). One campaign is played in
campaign.py, many in cells.py; scores.py counts them and table.py prints them. recording.py keeps campaigns of the
container lab, and recorded_noise.py compares their noise. scale.py and planning_cost.py measure what planning costs.
"""
