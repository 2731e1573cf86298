//! Whole handshakes with chosen random numbers, and frames after them, for with/sv2noise.

use crate::{encrypted, hex, keys, list, NOW};
use codec_sv2::Handshake;
use noise_sv2::{Initiator, Responder};
use rand::{rngs::StdRng, SeedableRng};

/// How long the certificates are valid, in seconds.
const VALIDITY: u32 = 3600;

/// One handshake and the first frames in both directions, as JSON.
fn handshake(seed: u64) -> String {
    let rng = |n: u64| StdRng::seed_from_u64(1000 * seed + n);
    let authority = keys::Pair::new(&mut rng(1));
    let initiator = Initiator::new_with_rng(Some(authority.0.x_only_public_key().0), &mut rng(2));
    let responder = Responder::new_with_rng(authority.0, VALIDITY, &mut rng(3));

    let (act1, initiator) = Handshake::initiator(initiator).step_0().unwrap();
    let (act2, responder) = Handshake::responder(responder)
        .step_1_with_now_rng(act1.payload().try_into().unwrap(), NOW, &mut rng(4))
        .unwrap();
    let initiator = initiator
        .step_2_with_now(act2.payload().try_into().unwrap(), NOW)
        .unwrap();
    let (mut up, _) = initiator.split();
    let (mut down, _) = responder.split();

    let (i, mut r) = (keys::Pair::new(&mut rng(2)), rng(3));
    let (e, s) = (keys::Pair::new(&mut r), keys::Pair::new(&mut r));
    let pair = |p: &keys::Pair| {
        format!(
            r#"{{"private": "{}", "public": "{}", "encoded": "{}"}}"#,
            hex(&p.0.secret_bytes()),
            hex(&p.0.x_only_public_key().0.serialize()),
            hex(&p.encoded().to_array())
        )
    };
    format!(
        r#"{{
    "authority": {},
    "initiator": {},
    "responder": {},
    "static": {},
    "valid_from": {NOW},
    "not_valid_after": {},
    "act1": "{}",
    "act2": "{}",
    "up": [
      {}
    ],
    "down": [
      {}
    ]}}"#,
        pair(&authority),
        pair(&i),
        pair(&e),
        pair(&s),
        NOW + VALIDITY,
        hex(act1.payload()),
        hex(act2.payload()),
        list(encrypted(
            &mut up,
            &[(0, false, 0x00, 60), (0, true, 0x1a, 24)]
        )),
        list(encrypted(
            &mut down,
            &[(0, false, 0x01, 6), (0, true, 0x1c, 0)]
        )),
    )
}

pub fn print() {
    println!(
        r#"{{
  "made by": "cargo run --locked --release handshakes, in frame/sv2/testdata/vectors",
  "crates": "{}",
  "handshakes": [
    {}
  ]
}}"#,
        crate::CRATES,
        list((1..=16).map(handshake).collect())
    );
}
