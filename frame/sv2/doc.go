// Package sv2 reads and writes the messages of Stratum V2, plain and encrypted. Stratum V2 is the
// protocol between miners, proxies and mining pools.
//
// A message has a header of six bytes, little-endian, and a payload:
//
//	0           2      3           6                   6+Length
//	├ extension ┼ type ┼─ length ──┼───── payload ─────┤
//	│ and, on   │      │ of the    │ with Channel:     │
//	│ top, the  │      │ payload,  │ begins with the   │
//	│ channel   │      │ 24 bits   │ channel's id, 4   │
//	│ bit       │      │           │ bytes             │
//	└───────────┴──────┴───────────┴───────────────────┘
//
// [Format] describes these messages to a frame.Decoder and a frame.Encoder:
//
//	d := frame.NewDecoder(r, sv2.Format{}, frame.MaxPayload(sv2.MaxPayload))
//
// After a handshake, a frame has an encrypted header and a payload in encrypted chunks (see
// [EncryptedLen]). A [Sealer] builds such frames in an arena.Buffer, and an [Opener] reads them.
// Both work in place, with any cipher.AEAD. Stratum V2 uses ChaCha20-Poly1305, as in
// golang.org/x/crypto/chacha20poly1305. The module with/sv2noise does the handshake and returns the
// Sealer and the Opener.
package sv2
