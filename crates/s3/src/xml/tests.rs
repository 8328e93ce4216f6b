use proptest::prelude::*;

use super::*;

const LISTING: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">
  <Name>bucket</Name>
  <Prefix>a&amp;b/</Prefix>
  <KeyCount>2</KeyCount>
  <IsTruncated>true</IsTruncated>
  <Contents>
    <Key>a&amp;b/ &lt;x&gt; &#233;&#x20AC;&quot;&apos;</Key>
    <LastModified>2026-01-01T00:00:00.000Z</LastModified>
    <ETag>&quot;abc&quot;</ETag>
    <Size>4194304</Size>
    <Owner><ID>1</ID><DisplayName>Size</DisplayName></Owner>
  </Contents>
  <Contents><Size>0</Size><Key><![CDATA[a&b/]]>raw</Key></Contents>
  <CommonPrefixes><Prefix>a&amp;b/c/</Prefix></CommonPrefixes>
  <NextContinuationToken>1u+/=&#61;</NextContinuationToken>
</ListBucketResult>"#;

fn key(key: &str, size: u64) -> Listed {
    Listed { key: key.to_owned(), size }
}

fn protocol<T: std::fmt::Debug>(result: Result<T, Failure>) -> String {
    match result {
        Err(Failure::Protocol(what)) => what,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_page_with_escaped_keys() {
    let page = list(LISTING.as_bytes()).expect("a page");
    assert_eq!(page.objects, [key("a&b/ <x> \u{e9}\u{20ac}\"'", 4_194_304), key("a&b/raw", 0)]);
    assert_eq!(page.common_prefixes, ["a&b/c/"]);
    assert_eq!(page.next.as_deref(), Some("1u+/=="));
}

#[test]
fn a_page_with_nothing_in_it() {
    for empty in ["<ListBucketResult/>", "<ListBucketResult><Contents/></ListBucketResult>"] {
        let read = list(empty.as_bytes());
        if empty.contains("Contents") {
            assert!(protocol(read).contains("without a key"));
        } else {
            assert_eq!(read.expect("a page"), Page::default());
        }
    }
    // Some stores send a token with the last page too; it must be ignored.
    let last = "<ListBucketResult><IsTruncated>false</IsTruncated>\
                <NextContinuationToken>x</NextContinuationToken></ListBucketResult>";
    assert_eq!(list(last.as_bytes()).expect("a page").next, None);
}

#[test]
fn a_page_of_encoded_keys() {
    let body = "<ListBucketResult><Contents><Key>a%2Fb+c%00%C3%A9</Key><Size>1</Size></Contents>\
                <CommonPrefixes><Prefix>d%2F</Prefix></CommonPrefixes>\
                <EncodingType>url</EncodingType></ListBucketResult>";
    let page = list(body.as_bytes()).expect("a page");
    assert_eq!(page.objects, [key("a/b c\0\u{e9}", 1)]);
    assert_eq!(page.common_prefixes, ["d/"]);
}

#[test]
fn a_huge_page() {
    let object = |at| format!("<Contents><Key>k/{at}</Key><Size>{at}</Size></Contents>");
    let objects: Vec<String> = (0..100_000).map(object).collect();
    let body = format!("<ListBucketResult>{}</ListBucketResult>", objects.concat());
    let page = list(body.as_bytes()).expect("a page");
    assert_eq!(page.objects.len(), 100_000);
    assert_eq!(page.objects[99_999], key("k/99999", 99_999));
}

#[test]
fn what_is_no_page_is_said() {
    for (body, part) in [
        ("", "incomplete"),
        ("gibberish", "incomplete"),
        ("<ListBucketResult><Contents>", "incomplete"),
        ("<ListBucketResult></Other>", "expected"),
        ("<Error><Code>NoSuchBucket</Code></Error>", "Error instead of a single ListBucketResult"),
        ("<ListBucketResult/><ListBucketResult/>", "instead of"),
        ("<ListBucketResult><X>&made-up;</X></ListBucketResult>", "unknown entity"),
        (
            "<ListBucketResult><Contents><Key>k</Key><Size>x</Size></Contents></ListBucketResult>",
            "not a number",
        ),
        (
            "<ListBucketResult><Contents><Key>k</Key></Contents></ListBucketResult>",
            "without a size",
        ),
        ("<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>", "without a token"),
    ] {
        let what = protocol(list(body.as_bytes()));
        assert!(what.contains(part), "{body}: {what}");
    }
    assert!(protocol(list(b"<ListBucketResult>\xff</ListBucketResult>")).contains("UTF-8"));
}

#[test]
fn errors_with_and_without_sense() {
    let body = br"<?xml version='1.0'?><Error><Code>PermanentRedirect</Code>
        <Message>Go &amp; ask</Message><Endpoint>e</Endpoint><Region>eu-west-1</Region></Error>";
    let answered = error(body);
    assert_eq!(answered.code.as_deref(), Some("PermanentRedirect"));
    assert_eq!(answered.message, "Go & ask");
    assert_eq!(answered.region.as_deref(), Some("eu-west-1"));
    // Truncated, but after the code.
    assert_eq!(error(b"<Error><Code>SlowDown</Code><Mess").code.as_deref(), Some("SlowDown"));
    assert_eq!(error(b"<Error><Code></Code></Error>").code, None);
    assert_eq!(error(b"").code, None);
    // Failures are counted by code: it has a maximum length and must not contain request numbers.
    let long = format!("<Error><Code>{0}</Code><Message>{0}</Message></Error>", "x".repeat(5_000));
    assert_eq!(error(long.as_bytes()).code, None);
    assert_eq!(error(long.as_bytes()).message.len(), 200);
    assert_eq!(error(b"<Error><Code>no, 17/4</Code></Error>").code, None);
    assert_eq!(error(b" 503 Service Unavailable\n").message, "503 Service Unavailable");
    assert_eq!(error(&[b'x'; 5_000]).message.len(), 200);
}

#[test]
fn multipart_answers() {
    let begun = b"<InitiateMultipartUploadResult xmlns=\"http://x/\"><Bucket>b</Bucket>\
                  <Key>k</Key><UploadId>a&amp;b</UploadId></InitiateMultipartUploadResult>";
    assert_eq!(upload_id(begun).expect("an id"), "a&b");
    let nameless = b"<InitiateMultipartUploadResult></InitiateMultipartUploadResult>";
    assert!(protocol(upload_id(nameless)).contains("UploadId"));
    // A store that is still assembling the object sends spaces to keep the connection alive.
    let done =
        b"\n   \n<CompleteMultipartUploadResult><ETag>x</ETag></CompleteMultipartUploadResult>";
    completed(done).expect("completed");
    let late =
        b"<?xml version=\"1.0\"?>\n<Error><Code>InternalError</Code><Message>m</Message></Error>";
    let wanted = Failure::Http {
        status: 200,
        code: Some("InternalError".to_owned()),
        message: "m".to_owned(),
    };
    assert_eq!(completed(late), Err(wanted));
    protocol(completed(b""));
    protocol(completed(b"<html></html>"));
}

#[test]
fn deletes_and_uploads_left_over() {
    let body = b"<DeleteResult><Deleted><Key>a</Key></Deleted><Error><Key>b</Key>\
                 <Code>AccessDenied</Code><Message>no</Message></Error>\
                 <Error><Key>c</Key><Code>InternalError</Code></Error></DeleteResult>";
    let left = not_deleted(body).expect("a result");
    let answered: Vec<_> = left.iter().map(|l| (&*l.key, &*l.code, &*l.message)).collect();
    assert_eq!(answered, [("b", "AccessDenied", "no"), ("c", "InternalError", "")]);
    assert_eq!(not_deleted(b"<DeleteResult/>").expect("a result"), []);

    let body = b"<ListMultipartUploadsResult><Upload><Key>k</Key><UploadId>1</UploadId></Upload>\
                 <Upload><UploadId>2</UploadId><Key>l</Key></Upload></ListMultipartUploadsResult>";
    let page = uploads(body).expect("uploads");
    let answered: Vec<_> = page.uploads.iter().map(|u| (&*u.key, &*u.upload_id)).collect();
    assert_eq!((answered, page.next), (vec![("k", "1"), ("l", "2")], None));
    let body = b"<ListMultipartUploadsResult><EncodingType>url</EncodingType>\
                 <NextKeyMarker>a%2Fb</NextKeyMarker><NextUploadIdMarker>7+%2F</NextUploadIdMarker>\
                 <IsTruncated>true</IsTruncated></ListMultipartUploadsResult>";
    let next = uploads(body).expect("a page").next.expect("more");
    assert_eq!(next, ("a/b".to_owned(), "7+%2F".to_owned()));
    let names: Vec<_> = uploads_query("p/", Some(&next)).iter().map(|(name, _)| *name).collect();
    let all = ["uploads", "prefix", "encoding-type", "key-marker", "upload-id-marker"];
    assert_eq!(names, all);
    let lost = b"<ListMultipartUploadsResult><IsTruncated>true</IsTruncated>\
                 </ListMultipartUploadsResult>";
    assert!(protocol(uploads(lost)).contains("without a marker"));
}

#[test]
fn a_success_may_hold_an_error() {
    for good in ["", "data", "<ListBucketResult/>", "<Error></Error>", "<Error><Code/></Error>"] {
        refused(good.as_bytes()).expect(good);
    }
    let late = refused(b"<Error><Code>SlowDown</Code><Message>m</Message></Error>");
    let answered = late.expect_err("refused");
    assert_eq!(answered.to_string(), "SlowDown (200): m");
    assert!(answered.retryable());
}

#[test]
fn bodies_that_are_sent() {
    assert_eq!(
        complete([(1, "\"a\"", None), (2, "b", None)].into_iter()),
        "<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Part><PartNumber>1</PartNumber><ETag>&quot;a&quot;</ETag></Part>\
         <Part><PartNumber>2</PartNumber><ETag>b</ETag></Part></CompleteMultipartUpload>"
    );
    let body = complete([(1, "a", Some(0xcbf4_3926))].into_iter());
    let text = std::str::from_utf8(&body).expect("text");
    assert!(text.contains("<ChecksumCRC32>y/Q5Jg==</ChecksumCRC32>"), "{text}");
    assert_eq!(
        delete_body(["a<b", "c"]),
        "<Delete xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
         <Object><Key>a&lt;b</Key></Object><Object><Key>c</Key></Object>\
         <Quiet>true</Quiet></Delete>"
    );
}

/// Run all parsers of answers on a body.
fn readers(body: &[u8]) {
    let _ = list(body);
    let _ = error(body);
    let _ = upload_id(body);
    let _ = completed(body);
    let _ = not_deleted(body);
    let _ = uploads(body);
}

proptest! {
    #[test]
    fn any_key_survives_the_way_to_the_store(
        keys in prop::collection::vec("[^\\p{Cc}\u{fffe}\u{ffff}]{1,20}", 1..5),
    ) {
        // A store that parses the body of a delete gets the intended keys.
        let body = delete_body(keys.iter().map(String::as_str));
        let mut read = Vec::new();
        walk(&body, "Delete", |path, text| {
            if path == "Object/Key" {
                read.push(text.to_owned());
            }
            Ok(())
        })
        .expect("a delete");
        prop_assert_eq!(read, keys);
    }

    #[test]
    fn a_damaged_answer_never_panics(at in 0usize..2_000, byte: u8, cut in 0usize..2_000) {
        let mut body = LISTING.as_bytes().to_vec();
        let at = at % body.len();
        body[at] = byte;
        readers(&body);
        body.truncate(cut % body.len());
        readers(&body);
    }

    #[test]
    fn noise_never_panics(body in prop::collection::vec(any::<u8>(), 0..300)) {
        readers(&body);
    }
}

#[test]
fn a_listing_that_stays_where_it_is_ends() {
    for (after, next) in [(None, None), (None, Some("a")), (Some("a"), Some("b"))] {
        assert_eq!(goes_on(after, next), Ok(()));
    }
    assert_eq!(goes_on(Some("a"), None), Ok(()));
    assert!(!goes_on(Some("a"), Some("a")).unwrap_err().retryable());
}
