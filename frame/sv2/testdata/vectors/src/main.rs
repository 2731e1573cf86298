//! Prints test vectors for frame/sv2 as JSON: what the reference implementation of Stratum V2 makes of chosen frames and
//! chosen random numbers. The same on every run.

mod handshakes;
mod keys;

use binary_sv2::{encodable::EncodableField, GetSize, Str0255};
use codec_sv2::{Encoder, Handshake, MessageFrame, NoiseEncoder, TransportEncryptState};
use common_messages_sv2::{Protocol, SetupConnection};
use framing_sv2::{framing::SerializedFrame, header::Header};
use noise_sv2::{Initiator, Responder};
use rand::{rngs::StdRng, SeedableRng};

const NOW: u32 = 1_700_000_000;

const CRATES: &str =
    "binary_sv2 7.0.0, codec_sv2 7.0.0, common_messages_sv2 9.0.0, framing_sv2 8.0.0, noise_sv2 2.0.0";

fn list(items: Vec<String>) -> String {
    items.join(",\n    ")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A message of so many bytes, for frames whose header alone is wanted.
struct OfSize(usize);

impl From<OfSize> for EncodableField<'_> {
    fn from(_: OfSize) -> Self {
        EncodableField::Struct(Vec::new())
    }
}

impl GetSize for OfSize {
    fn get_size(&self) -> usize {
        self.0
    }
}

/// The header of a frame, and its six bytes.
fn header(extension: u16, channel: bool, kind: u8, length: usize) -> (Header, [u8; 6]) {
    let header = MessageFrame::from_message(OfSize(length), kind, extension, channel)
        .unwrap()
        .header();
    let mut bytes = [0; 6];
    header.write_into(&mut bytes).unwrap();
    (header, bytes)
}

/// The payload of the encrypted frames: byte i is the exclusive or of the three low bytes of i, and 165.
fn payload(length: usize) -> Vec<u8> {
    (0..length)
        .map(|i| (i ^ i >> 8 ^ i >> 16 ^ 165) as u8)
        .collect()
}

fn headers() -> Vec<String> {
    [
        (0, false, 0x00, 0),
        (0, false, 0x01, 1),
        (0, true, 0x1f, 4),
        (0x0abc, false, 0x71, 255),
        (0x0abc, true, 0x71, 256),
        (0x7fff, false, 0xff, 65_518),
        (0x7fff, true, 0xff, 65_519),
        (0x0001, true, 0x80, 65_535),
        (0x0100, false, 0x15, 65_536),
        (0x0003, true, 0x1a, 0x01_02_03),
        (0, false, 0x74, (1 << 24) - 2),
        (0x4000, true, 0x22, (1 << 24) - 1),
    ]
    .iter()
    .map(|&(extension, channel, kind, length)| {
        let (header, bytes) = header(extension, channel, kind, length);
        assert_eq!(header.ext_type_without_channel_msg(), extension);
        assert_eq!(header.channel_msg(), channel);
        let encrypted = codec_sv2::encrypted_payload_length(&header);
        format!(
            r#"{{"extension": {extension}, "channel": {channel}, "type": {kind}, "length": {length}, "encrypted": {encrypted}, "bytes": "{}"}}"#,
            hex(&bytes)
        )
    })
    .collect()
}

/// A whole message as the plain encoder frames it, the one that opens every connection.
fn message() -> String {
    fn text(s: &str) -> Str0255<'_> {
        s.as_bytes().try_into().unwrap()
    }
    let message = SetupConnection {
        protocol: Protocol::MiningProtocol,
        min_version: 2,
        max_version: 2,
        flags: 0b101,
        endpoint_host: text("pool.example"),
        endpoint_port: 3333,
        vendor: text("vendor"),
        hardware_version: text("hardware 1"),
        firmware: text("firmware 2"),
        device_id: text(""),
    };
    let frame = MessageFrame::from_message(message, 0x00, 0, false).unwrap();
    let length = frame.encoded_length() - Header::SIZE;
    let wire = Encoder::new().encode(frame).unwrap();
    format!(
        r#"{{"length": {length}, "bytes": "{}"}}"#,
        hex(wire.as_ref())
    )
}

/// Frames sealed one after the other, so that nonces run on through them.
fn encrypted(state: &mut TransportEncryptState, frames: &[(u16, bool, u8, usize)]) -> Vec<String> {
    let mut encoder = NoiseEncoder::new();
    let mut nonce = 0;
    let mut seal = |&(extension, channel, kind, length): &(u16, bool, u8, usize)| {
        let (_, head) = header(extension, channel, kind, length);
        let plain = [&head[..], &payload(length)].concat();
        let frame = SerializedFrame::from_bytes(plain).unwrap();
        let wire = encoder.encode_transport(frame, state).unwrap();
        let wire: &[u8] = wire.as_ref();
        let first = nonce;
        nonce += 1 + length.div_ceil(codec_sv2::SV2_FRAME_PLAINTEXT_CHUNK_SIZE);
        let bytes = if length < 100 {
            hex(wire)
        } else {
            String::new()
        };
        format!(
            r#"{{"extension": {extension}, "channel": {channel}, "type": {kind}, "length": {length}, "nonce": {first}, "wire": {}, "sha256": "{}", "bytes": "{bytes}"}}"#,
            wire.len(),
            keys::sha256(wire)
        )
    };
    frames.iter().map(&mut seal).collect()
}

fn main() {
    match std::env::args().nth(1).as_deref() {
        None => frames(),
        Some("handshakes") => handshakes::print(),
        Some(other) => panic!("unknown argument {other}"),
    }
}

fn frames() {
    let authority = keys::Pair::new(&mut StdRng::seed_from_u64(1));
    let initiator = Initiator::without_pk_with_rng(&mut StdRng::seed_from_u64(2)).unwrap();
    let responder = Responder::new_with_rng(authority.0, 3600, &mut StdRng::seed_from_u64(3));

    let (act1, initiator) = Handshake::initiator(initiator).step_0().unwrap();
    let (act2, responder) = Handshake::responder(responder)
        .step_1_with_now_rng(
            act1.payload().try_into().unwrap(),
            NOW,
            &mut StdRng::seed_from_u64(4),
        )
        .unwrap();
    let initiator = initiator
        .step_2_with_now(act2.payload().try_into().unwrap(), NOW)
        .unwrap();
    let (mut up, _) = initiator.split();
    let (mut down, _) = responder.split();

    let (up_key, down_key) =
        keys::agreed(&mut StdRng::seed_from_u64(2), &mut StdRng::seed_from_u64(3));
    let up_frames = encrypted(
        &mut up,
        &[
            (0, false, 0x00, 0),
            (0, false, 0x00, 1),
            (0, true, 0x1a, 4),
            (0x0abc, true, 0x71, 60),
            (0, false, 0x15, 4096),
            (0, false, 0x71, 65_518),
            (0, false, 0x71, 65_519),
            (0, false, 0x71, 65_520),
            (0, true, 0x71, 131_037),
            (0, true, 0x71, 131_038),
            (0, true, 0x71, 131_039),
            (0, false, 0x74, 300_000),
            (0, true, 0x1a, 8),
        ],
    );
    let down_frames = encrypted(&mut down, &[(0, false, 0x01, 6), (0, true, 0x1f, 65_520)]);

    println!(
        r#"{{
  "made by": "cargo run --locked --release > ../vectors.json, in frame/sv2/testdata/vectors",
  "crates": "{CRATES}",
  "acts": [{}, {}],
  "headers": [
    {}
  ],
  "setup_connection": {},
  "up": {{"key": "{}", "frames": [
    {}
  ]}},
  "down": {{"key": "{}", "frames": [
    {}
  ]}}
}}"#,
        act1.payload().len(),
        act2.payload().len(),
        list(headers()),
        message(),
        hex(&up_key),
        list(up_frames),
        hex(&down_key),
        list(down_frames)
    );
}
