//! The keys that a handshake ends with. noise_sv2 keeps them to itself, so they are worked out a second time, from the same
//! random numbers: Noise NX over secp256k1 with ElligatorSwift, as the specification of Stratum V2 has it in section 4.

use noise_sv2::NOISE_HASHED_PROTOCOL_NAME_CHACHA;
use rand::{CryptoRng, Rng};
use secp256k1::{
    ellswift::{ElligatorSwift, ElligatorSwiftParty},
    hashes::{sha256, Hash, HashEngine, Hmac, HmacEngine},
    Keypair, Parity, Secp256k1,
};

/// A key pair as noise_sv2 draws it: with an even public key.
pub struct Pair(pub Keypair);

impl Pair {
    pub fn new<R: Rng + CryptoRng>(rng: &mut R) -> Self {
        let secp = Secp256k1::new();
        let (secret, public) = secp.generate_keypair(rng);
        let secret = match public.x_only_public_key().1 {
            Parity::Odd => secret.negate(),
            Parity::Even => secret,
        };
        Pair(Keypair::from_secret_key(&secp, &secret))
    }

    pub fn encoded(&self) -> ElligatorSwift {
        ElligatorSwift::from_pubkey(self.0.public_key())
    }
}

/// The keys from the initiator to the responder and back. Each side draws its keys from its own random numbers: the initiator
/// an ephemeral one, the responder an ephemeral and then a static one.
pub fn agreed<R: Rng + CryptoRng>(initiator: &mut R, responder: &mut R) -> ([u8; 32], [u8; 32]) {
    let ours = Pair::new(initiator);
    let (ephemeral, fixed) = (Pair::new(responder), Pair::new(responder));
    let mut chaining = NOISE_HASHED_PROTOCOL_NAME_CHACHA;
    for theirs in [ephemeral, fixed] {
        let secret = ElligatorSwift::shared_secret(
            ours.encoded(),
            theirs.encoded(),
            ours.0.secret_key(),
            ElligatorSwiftParty::A,
            None,
        );
        chaining = hkdf(&chaining, &secret.to_secret_bytes()).0;
    }
    hkdf(&chaining, &[])
}

/// HKDF with two outputs, as in section 4.3 of the Noise Protocol Framework.
fn hkdf(chaining: &[u8; 32], input: &[u8]) -> ([u8; 32], [u8; 32]) {
    let key = hmac(chaining, &[input]);
    let first = hmac(&key, &[&[1]]);
    let second = hmac(&key, &[&first, &[2]]);
    (first, second)
}

fn hmac(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut engine = HmacEngine::<sha256::Hash>::new(key);
    for part in parts {
        engine.input(part);
    }
    Hmac::from_engine(engine).to_byte_array()
}

pub fn sha256(bytes: &[u8]) -> String {
    sha256::Hash::hash(bytes).to_string()
}
