"""storlab's own S3 server with AWS's client, which signs and encodes by itself."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from botocore.session import Session

from storlab.stores.s3.embedded import EmbeddedServer

KEYS = ["a/1", "a/ü & <2>", "b//+ %41", "c"]
PART = 5 << 20


def client_of(server: EmbeddedServer, secret: str | None = None, **options: Any) -> Any:
    store = server.store
    assert store.credentials is not None
    return Session().create_client(
        "s3",
        region_name=store.region,
        endpoint_url=store.endpoints[0],
        aws_access_key_id=store.credentials.access_key,
        aws_secret_access_key=secret or store.credentials.secret_key,
        config=Config(
            s3={"addressing_style": "path", **options.pop("s3", {})},
            retries={"max_attempts": 0},
            **options,
        ),
    )


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path_factory.mktemp("embedded") / "objects") as server:
        yield server


@pytest.fixture
def bucket(server: EmbeddedServer) -> str:
    return server.store.bucket


@pytest.mark.parametrize("signed", [True, False], ids=["signed", "unsigned"])
@pytest.mark.parametrize("checksum", ["CRC32", "SHA1", "SHA256", None])
def test_content_comes_back_however_it_is_packed(
    server: EmbeddedServer, bucket: str, checksum: str | None, signed: bool
) -> None:
    """Check that content round-trips, including chunked streams with a trailer."""
    asked = {} if checksum is None else {"ChecksumAlgorithm": checksum}
    client = client_of(
        server,
        s3={"payload_signing_enabled": signed},
        request_checksum_calculation="when_required" if checksum is None else "when_supported",
    )
    content = bytes(range(256)) * 1000
    for name, body in (("bytes", content), ("stream", io.BytesIO(content))):
        client.put_object(Bucket=bucket, Key=name, Body=body, Metadata={"who": "a test"}, **asked)
        answer = client.get_object(Bucket=bucket, Key=name)
        assert answer["Body"].read() == content
        assert answer["Metadata"] == {"who": "a test"}
    part = client.get_object(Bucket=bucket, Key="bytes", Range="bytes=10-19")
    assert (part["Body"].read(), part["ContentRange"]) == (content[10:20], "bytes 10-19/256000")


def test_names_are_listed_as_they_were_written(server: EmbeddedServer, bucket: str) -> None:
    client = client_of(server)
    for key in KEYS:
        client.put_object(Bucket=bucket, Key=f"names/{key}", Body=key.encode())
        assert client.get_object(Bucket=bucket, Key=f"names/{key}")["Body"].read() == key.encode()
    pages = client.get_paginator("list_objects_v2").paginate(
        Bucket=bucket, Prefix="names/", PaginationConfig={"PageSize": 2}
    )
    listed = [entry["Key"] for page in pages for entry in page["Contents"]]
    assert listed == sorted((f"names/{key}" for key in KEYS), key=str.encode)
    page = client.list_objects_v2(Bucket=bucket, Prefix="names/", Delimiter="/")
    assert [entry["Prefix"] for entry in page["CommonPrefixes"]] == ["names/a/", "names/b/"]
    assert [entry["Key"] for entry in page["Contents"]] == ["names/c"]
    gone = client.delete_objects(
        Bucket=bucket, Delete={"Objects": [{"Key": f"names/{key}"} for key in KEYS]}
    )
    assert sorted(entry["Key"] for entry in gone["Deleted"]) == sorted(f"names/{k}" for k in KEYS)
    assert client.list_objects_v2(Bucket=bucket, Prefix="names/")["KeyCount"] == 0


def test_an_upload_in_parts(server: EmbeddedServer, bucket: str) -> None:
    client = client_of(server)
    place = {"Bucket": bucket, "Key": "parts"}
    upload = client.create_multipart_upload(**place)["UploadId"]
    assert [u["Key"] for u in client.list_multipart_uploads(Bucket=bucket)["Uploads"]] == ["parts"]
    pieces = [b"x" * PART, b"the end"]
    parts = [
        {
            "PartNumber": number,
            "ETag": client.upload_part(**place, UploadId=upload, PartNumber=number, Body=piece)[
                "ETag"
            ],
        }
        for number, piece in enumerate(pieces, start=1)
    ]
    client.complete_multipart_upload(**place, UploadId=upload, MultipartUpload={"Parts": parts})
    assert client.get_object(**place)["Body"].read() == b"".join(pieces)
    other = client.create_multipart_upload(**place)["UploadId"]
    client.abort_multipart_upload(**place, UploadId=other)
    assert "Uploads" not in client.list_multipart_uploads(Bucket=bucket)


def refusal(call: Any, **asked: Any) -> str:
    with pytest.raises(ClientError) as refused:
        call(**asked)
    return str(refused.value.response["Error"]["Code"])


def test_refusals_have_the_names_that_clients_know(
    server: EmbeddedServer, bucket: str, tmp_path: Path
) -> None:
    client = client_of(server)
    client.put_object(Bucket=bucket, Key="there", Body=b"first")
    place = {"Bucket": bucket, "Key": "there"}
    assert refusal(client.get_object, Bucket=bucket, Key="absent") == "NoSuchKey"
    assert refusal(client.head_object, Bucket=bucket, Key="absent") == "404"
    assert refusal(client.list_objects_v2, Bucket="absent") == "NoSuchBucket"
    assert refusal(client.put_object, **place, Body=b"2", IfNoneMatch="*") == "PreconditionFailed"
    assert refusal(client.get_object, **place, Range="bytes=9-") == "InvalidRange"
    assert refusal(client.abort_multipart_upload, **place, UploadId="absent") == "NoSuchUpload"
    stranger = client_of(server, secret="wrong")
    assert refusal(stranger.get_object, **place) == "SignatureDoesNotMatch"
    assert refusal(stranger.put_object, **place, Body=io.BytesIO(b"2")) == "SignatureDoesNotMatch"
    assert client.get_object(**place)["Body"].read() == b"first"
