"""``make bench``: starts its own servers, measures, prints a table, writes results.json."""

import tempfile
from pathlib import Path

from bench import exports, ledger, mesh, proofs, relaying, replaying, writing
from bench.results import Results
from leasehold.launcher.embedded import Nats, Postgres
from leasehold.launcher.ports import Ports, free_base

RESULTS = Path(__file__).with_name("results.json")


def main() -> None:
    results = Results()
    with tempfile.TemporaryDirectory(prefix="leasehold-bench-") as folder:
        ports = Ports(free_base())
        postgres = Postgres(Path(folder) / "postgres", ports.postgres, "bench")
        nats = Nats(Path(folder) / "nats", ports.nats)
        try:
            postgres.start()
            nats.start()
            writing.measure(postgres.url, results)
            replaying.measure(postgres.url, results)
            ledger.measure(postgres.url, results)
            relaying.measure(postgres.url, nats.url, results)
        finally:
            nats.stop()
            postgres.stop()
    exports.measure(results)
    mesh.measure(results)
    proofs.measure(results)
    results.show()
    results.write(RESULTS)


if __name__ == "__main__":
    main()
