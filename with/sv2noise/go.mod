module github.com/millrace-io/millrace/with/sv2noise

go 1.26.0

require (
	github.com/btcsuite/btcd/btcec/v2 v2.3.5
	github.com/millrace-io/millrace v0.0.0
	golang.org/x/crypto v0.58.0
)

require (
	github.com/btcsuite/btcd/chaincfg/chainhash v1.0.1 // indirect
	github.com/decred/dcrd/crypto/blake256 v1.1.0 // indirect
	github.com/decred/dcrd/dcrec/secp256k1/v4 v4.4.1 // indirect
	golang.org/x/sys v0.49.0 // indirect
)
