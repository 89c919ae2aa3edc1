"""The node agent joins a machine to the platform and runs leases on its GPUs as processes.

Owns: the processes of its leases, what they printed, how long they ran; its key and certificate.
Says: what runs (SyncNode), how long it ran (RecordSlices), how the GPUs are (ReportTelemetry).
Hears: what should run. It works on while the control plane is away and loses nothing by it.
"""
