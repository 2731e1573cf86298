package cluster

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/crypto/acme/autocert"
)

// certificatesKept is how long a certificate or the key of the account stays in Redis after it was
// stored. Few certificates are valid for longer.
const certificatesKept = 400 * 24 * time.Hour

// Certificates stores the TLS certificates of the cluster and their keys in Redis, so that every
// node has them, and answers an authority that checks any of the nodes. The values are encrypted
// with a key that only the nodes have. Certificates implements [autocert.Cache].
type Certificates struct {
	rdb    redis.UniversalClient
	prefix string
	aead   cipher.AEAD
}

// OpenCertificates returns the certificates in Redis. token is the token of the cluster. The caller
// must call Close.
func OpenCertificates(cfg RedisConfig, token string) (*Certificates, error) {
	key, err := hkdf.Key(sha256.New, []byte(token), nil, "millrace certificates", 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	rdb, err := cfg.openClient()
	if err != nil {
		return nil, err
	}
	return &Certificates{rdb, cfg.Prefix, aead}, nil
}

func (c *Certificates) key(name string) string { return c.prefix + "{" + name + "}certificate" }

// Get returns the stored value. A value that was stored with another token counts as missing.
func (c *Certificates) Get(ctx context.Context, name string) ([]byte, error) {
	text, err := c.rdb.Get(ctx, c.key(name)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, autocert.ErrCacheMiss
	}
	if err != nil {
		return nil, err
	}
	if text, err = c.aead.Open(nil, nil, text, []byte(name)); err != nil {
		return nil, autocert.ErrCacheMiss
	}
	return text, nil
}

// Put stores a value.
func (c *Certificates) Put(ctx context.Context, name string, data []byte) error {
	text := c.aead.Seal(nil, nil, data, []byte(name))
	return c.rdb.Set(ctx, c.key(name), text, certificatesKept).Err()
}

// Delete removes a value.
func (c *Certificates) Delete(ctx context.Context, name string) error {
	return c.rdb.Del(ctx, c.key(name)).Err()
}

// Close closes the connections to Redis.
func (c *Certificates) Close() error { return c.rdb.Close() }
