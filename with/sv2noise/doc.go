// Package sv2noise is the handshake of Stratum V2, which encrypts the connections between miners,
// proxies and mining pools. It agrees on the keys of an sv2.Sealer and an sv2.Opener.
//
// The handshake is Noise_NX_Secp256k1+EllSwift_ChaChaPoly_SHA256. The initiator, such as a miner,
// sends act 1. The responder, such as a pool, answers with act 2. Act 2 contains the responder's
// static key and a [Certificate], in which an authority has signed that key. The initiator knows
// the authority's key, often from the URL of the pool, and checks the certificate. The initiator
// stays anonymous.
//
//	r := millrace.NewReader(conn)
//	conn.SetDeadline(time.Now().Add(10 * time.Second))
//	sealer, opener, err := sv2noise.Initiate(r, conn, sv2noise.SignedBy(authority))
//	conn.SetDeadline(time.Time{})
//
// [Initiate] and [Responder.Respond] borrow the Reader and the Writer until they return. The Opener
// borrows the Reader from then on, as sv2.NewOpener says. The acts have fixed sizes, sv2.Act1Size
// and sv2.Act2Size, so a peer cannot make the handshake use more memory. The handshake has no time
// limit. Set a deadline on the connection, because a peer may send nothing.
//
// The package uses the secp256k1 curve of github.com/btcsuite/btcd/btcec, in Go without cgo. Its
// multiplications do not take constant time. A peer that can measure the time of single operations
// could learn about a static key.
//
// The tests repeat handshakes of the protocol's Rust implementation, in both roles, byte for byte.
package sv2noise
