"""Which keys are storlab's, stores' XML answers, and meaning of their errors."""

from __future__ import annotations

import errno
import json

import pytest

from storlab.base.errors import PreflightError
from storlab.contracts.document import Error
from storlab.model.point import PlannedRun
from storlab.model.s3 import Credentials, S3Store
from storlab.stores.s3.errors import refused, unreachable
from storlab.stores.s3.keys import (
    foreign_keys,
    is_own_key,
    marker_content,
    own_prefix,
    prefix_problem,
    read_marker,
)
from storlab.stores.s3.xml import ErrorBody, error_body, objects_page, uploads_page

CAMPAIGN = "0123456789ab"
PREFIX = own_prefix("bench/", CAMPAIGN, "SSD")


def test_each_target_of_a_campaign_has_a_prefix_of_its_own() -> None:
    assert own_prefix("bench/", CAMPAIGN, "SSD") == PREFIX
    others = {own_prefix("bench/", CAMPAIGN, "HDD"), own_prefix("bench/", "0" * 12, "SSD")}
    assert len({PREFIX, *others}) == 3
    for prefix in (PREFIX, *others):
        assert prefix.startswith("bench/storlab-")
        assert len(prefix) == len("bench/storlab-") + 13


@pytest.mark.parametrize("campaign", ["", "0123456789AB", "0123456789abc", "../../secret"])
def test_a_campaign_is_twelve_digits(campaign: str) -> None:
    with pytest.raises(ValueError, match="campaign"):
        own_prefix("", campaign, "SSD")


@pytest.mark.parametrize(
    "rest",
    [
        "storlab.json",
        "probe",
        "pool-0123abcd/",
        "pool-0123abcd/0000/00000001",
        "training-0123abcd/train/img_0_of_8.npz",
        "preprocess-0123abcd/day_0",
        "checkpoints-0123456789ab-r1/checkpoint-000001/model",
        f"run-{PlannedRun(order=0, repeat=12, point_id='0123456789ab').run_id}/anything\nat all",
    ],
)
def test_keys_of_storlab(rest: str) -> None:
    assert is_own_key(PREFIX + rest, PREFIX)


@pytest.mark.parametrize(
    "rest",
    [
        "",
        "storlab.json.bak",
        "storlab.json/",
        "Pool-0123abcd/x",
        "pool-0123abcd",
        "training-0123abcd",
        "training-0123abcd-r1/x",
        "checkpoints-0123abcd/x",
        "pool-0123abcdef/x",
        "run-0123456789ab/x",
        "run-0123456789ab-r0/x",
        "run-0123456789ab-r1",
        "x/pool-0123abcd/x",
        "thesis.tex",
        "\npool-0123abcd/x",
    ],
)
def test_keys_of_others(rest: str) -> None:
    assert foreign_keys([PREFIX + rest], PREFIX) == [PREFIX + rest]


def test_a_key_outside_of_the_prefix_is_foreign() -> None:
    assert not is_own_key("pool-0123abcd/x", PREFIX)
    assert not is_own_key("storlab.json", PREFIX)


def test_the_marker_says_whose_it_is() -> None:
    document = read_marker(marker_content(CAMPAIGN, "SSD", made_bucket=True))
    assert document is not None
    assert (document["campaign"], document["target"], document["made_bucket"]) == (
        CAMPAIGN,
        "SSD",
        True,
    )


@pytest.mark.parametrize("content", [b"", b"[]", b"\xff", b'{"schema_version": 2}'])
def test_another_marker_is_none(content: bytes) -> None:
    assert read_marker(content) is None


LISTING = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <EncodingType>url</EncodingType><Prefix>a/</Prefix><IsTruncated>%s</IsTruncated>
  <NextContinuationToken>1%%2B</NextContinuationToken>
  <Contents><Key>a/b%%2Bc+d</Key></Contents>
  <CommonPrefixes><Prefix>a/e%%20/</Prefix></CommonPrefixes>
</ListBucketResult>"""


def test_a_page_of_a_listing() -> None:
    page = objects_page(LISTING % b"true")
    assert page.keys == ["a/b+c d"]
    assert page.prefixes == ["a/e /"]
    assert page.after == [("continuation-token", "1%2B")]  # opaque: returned unchanged
    assert objects_page(LISTING % b"false").after == []


def test_keys_that_are_not_encoded_stay_as_they_are() -> None:
    plain = (LISTING % b"false").replace(b"<EncodingType>url</EncodingType>", b"")
    assert objects_page(plain).keys == ["a/b%2Bc+d"]


def test_a_page_of_uploads() -> None:
    body = b"""<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>
    <NextKeyMarker>k</NextKeyMarker><NextUploadIdMarker>u</NextUploadIdMarker>
    <Upload><Key>k</Key><UploadId>u</UploadId></Upload></ListMultipartUploadsResult>"""
    page = uploads_page(body)
    assert page.keys == ["k"]
    assert page.after == [("key-marker", "k"), ("upload-id-marker", "u")]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not xml",
        b"<html/>",
        b'<!DOCTYPE x [<!ENTITY a "aaaa">]><ListBucketResult>&a;</ListBucketResult>',
        b"<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
    ],
)
def test_what_is_no_listing(body: bytes) -> None:
    with pytest.raises(ValueError, match=r"answer|listing"):
        objects_page(body)


def test_an_error_may_be_anything() -> None:
    body = b"<Error><Code>NoSuchKey</Code><Message>not there</Message></Error>"
    assert error_body(body) == ErrorBody("NoSuchKey", "not there")
    assert error_body(b"<html>Not found") == ErrorBody()
    assert error_body(b"") == ErrorBody()


STORE = S3Store(
    endpoints=["https://s3.example.com"],
    bucket="bench",
    credentials=Credentials("AKIDEXAMPLE", "the secret"),
)


def error(
    status: int, code: str = "", message: str = "", skew_s: float | None = None, **headers: str
) -> PreflightError:
    spelled = {name.replace("_", "-"): value for name, value in headers.items()}
    body = ErrorBody(code, message)
    hidden = ["AKIDEXAMPLE", "the secret"]
    return refused(STORE, "list the bucket", status, spelled, body, skew_s, hidden)


@pytest.mark.parametrize(
    ("code", "status", "what", "fix"),
    [
        ("InvalidAccessKeyId", 403, "does not know the access key", "endpoint"),
        ("SignatureDoesNotMatch", 403, "secret key does not match", "secret key"),
        ("AccessDenied", 403, "do not allow it", "s3:ListBucket"),
        ("ExpiredToken", 400, "expired", "new keys"),
        ("NoSuchBucket", 404, "does not exist", "create_bucket"),
        ("SlowDown", 503, "busy", "later"),
        ("", 403, "do not allow it", "s3:ListBucket"),
        ("", 404, "like an S3 store", "address"),
        ("XStrange", 418, "XStrange (418)", "log"),
    ],
)
def test_refusals_in_words(code: str, status: int, what: str, fix: str) -> None:
    reason = error(status, code)
    assert reason.where == "https://s3.example.com/bench"
    assert reason.what.startswith("cannot list the bucket: ")
    assert what in reason.what
    assert str(status) in reason.what
    assert fix in reason.fix


@pytest.mark.parametrize("code", ["InvalidToken", "InvalidTokenId"])
@pytest.mark.parametrize("place", ["AWS_SESSION_TOKEN", "SSD_SESSION_TOKEN"])
def test_a_bad_token_is_named_by_where_it_came_from(code: str, place: str) -> None:
    def refusal(token: str | None) -> PreflightError:
        keys = Credentials("AKIDEXAMPLE", "the secret", token, place)
        store = STORE.model_copy(update={"credentials": keys})
        return refused(store, "list the bucket", 403, {}, ErrorBody(code, ""), None, [])

    assert "the session token is not valid" in refusal("t").what
    assert refusal("t").fix == f"set {place} again, or remove it if the keys need no token"
    assert "none is set" in refusal(None).what
    assert place in refusal(None).fix


@pytest.mark.parametrize(
    ("prefix", "well"),
    [("", True), ("bench/", True), ("a/b", True), ("a.b/..c", True), ("/", False)]
    + [(bad, False) for bad in ("//double//", "a//b/", "/lead/", "./a/", "a/../b/", "a/..")],
)
def test_prefixes_with_nothing_between_slashes(prefix: str, well: bool) -> None:
    assert (prefix_problem(prefix) is None) is well


def test_the_right_region_is_named_wherever_it_is_found() -> None:
    for reason in (
        error(301, "PermanentRedirect", x_amz_bucket_region="eu-west-1"),
        error(301, x_amz_bucket_region="eu-west-1"),
        error(400, "AuthorizationHeaderMalformed", "'us-east-1' is wrong; expecting 'eu-west-1'"),
        error(403, "AccessDenied", x_amz_bucket_region="eu-west-1"),
    ):
        assert reason.fix == 'set s3_options.region = "eu-west-1"'
        assert "us-east-1" in reason.what


def test_the_same_region_is_no_reason() -> None:
    reason = error(403, "AccessDenied", x_amz_bucket_region="us-east-1")
    assert "do not allow it" in reason.what


def test_a_clock_that_is_wrong_is_told_by_how_much() -> None:
    late = error(403, "RequestTimeTooSkewed", skew_s=3600.0)
    assert "3,600 s" in late.what
    assert "behind" in late.fix
    assert "ahead" in error(403, "RequestTimeTooSkewed", skew_s=-3600.0).fix


def test_keys_that_a_store_repeats_are_hidden() -> None:
    reason = error(403, "InvalidAccessKeyId", "no key AKIDEXAMPLE; did you mean the secret?")
    assert "AKIDEXAMPLE" not in str(reason)
    assert "the secret" not in str(reason)
    assert "***" in reason.what


def failed(fault: str, code: int | None = None, text: str = "in words") -> OSError:
    """Return an error as raised by the native client."""
    error = OSError(text) if code is None else OSError(code, text)
    error.fault = fault  # type: ignore[attr-defined]
    return error


@pytest.mark.parametrize(
    ("raised", "what", "fix"),
    [
        (failed("refused", errno.ECONNREFUSED), "refused", "running"),
        (failed("time-out", errno.ETIMEDOUT), "no answer in time", "firewalls"),
        (failed("ended", errno.ECONNRESET), "in words", "https"),
        (failed("name"), "name is not found", "host name"),
        (failed("untrusted"), "certificate is not accepted", "ca_file"),
        (failed("expired"), "certificate is not accepted", "clock"),
        (failed("wrong-name"), "certificate is not accepted", "name"),
        (failed("tls"), "does not speak TLS", "scheme"),
        (failed("handshake"), "does not speak TLS", "scheme"),
        (failed("unreachable", errno.EHOSTUNREACH), "in words", "can reach"),
        # Message text is ignored: a bucket may have such a name.
        (failed("unreachable", text="certificate refused handshake"), "refused", "can reach"),
    ],
)
def test_no_answer_in_words(raised: OSError, what: str, fix: str) -> None:
    text = unreachable("https://h:1/bench", raised, [])
    assert text.where == "https://h:1/bench"
    assert what in text.what
    assert fix in text.fix
    assert json.loads(Error.of(text).model_dump_json())["what"] == text.what
