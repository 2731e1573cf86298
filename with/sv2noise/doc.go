// Package sv2noise implements the handshake of Stratum V2, the protocol between miners, proxies and
// mining pools. In the handshake, two peers agree on the keys that encrypt their connection. The
// package returns an sv2.Sealer and an sv2.Opener with these keys.
//
// The handshake is Noise_NX_Secp256k1+EllSwift_ChaChaPoly_SHA256. The initiator, such as a miner,
// sends act 1. The responder, such as a pool, answers with act 2. Act 2 contains the responder's
// static key and a [Certificate], in which an authority has signed that key. The initiator knows
// the authority's key, often from the URL of the pool, and checks the certificate with this key.
// The initiator stays anonymous.
//
//	r := millrace.NewReader(conn)
//	conn.SetDeadline(time.Now().Add(10 * time.Second))
//	sealer, opener, err := sv2noise.Initiate(r, conn, sv2noise.SignedBy(authority))
//	conn.SetDeadline(time.Time{})
//
// [Initiate] and [Responder.Respond] borrow the Reader and the Writer until they return. From then
// on, the Opener borrows the Reader (see sv2.NewOpener). The acts have fixed sizes, sv2.Act1Size
// and sv2.Act2Size, so a peer cannot make the handshake use more memory. The handshake has no time
// limit. The caller should set a deadline on the connection.
//
// The package uses the secp256k1 curve of github.com/btcsuite/btcd/btcec, in Go without cgo. The
// multiplications on this curve do not take constant time. A peer that can measure the time of
// single operations could learn about a static key.
//
// The tests repeat handshakes of the protocol's Rust implementation, in both roles, byte for byte.
package sv2noise
