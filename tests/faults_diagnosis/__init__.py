"""Makes each fault of the PROBLEMS table on real servers and compares what the diagnosis says with what was done.

`python -m tests.faults_diagnosis` (`make faults-diagnosis`) prints a table and writes build/faults-diagnosis.json. The
faults are made here; the diagnosis runs in a process of its own, which is told the pipeline's name and nothing else.
"""
