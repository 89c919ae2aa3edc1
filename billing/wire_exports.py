"""What is asked of an export, checked."""

from billing.exports.columns import DATASETS
from billing.exports.export import FORMATS, Selection
from chassis.errors import Invalid
from leasehold.billing.v1 import exports_service_pb2 as pb


def selection(request: pb.ExportFocusRequest, issuer: str) -> Selection:
    dataset, form = request.dataset or "CostAndUsage", request.format or "csv"
    if dataset not in DATASETS:
        raise Invalid(f"a dataset is one of {', '.join(DATASETS)}", code="DATASET", field="dataset")
    if form not in FORMATS:
        raise Invalid(f"a format is one of {', '.join(FORMATS)}", code="FORMAT", field="format")
    from_us = getattr(request, "from")  # the word is Python's
    if min(from_us, request.until, request.position) < 0:
        raise Invalid("times and positions are not negative", code="RANGE", field="from")
    if request.until and from_us >= request.until:
        raise Invalid("a range ends after it begins", code="RANGE", field="until")
    return Selection(dataset, form, from_us, request.until, issuer)
