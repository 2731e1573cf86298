package server

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/millrace-io/millrace/server/internal/lock"
)

// certificateLook is the minimum time between two checks of the certificate's files for changes.
// The time may be long, because certificates are renewed days before they expire.
const certificateLook = time.Minute

// A certificate is the server's TLS certificate. After the certificate file or the key file has
// changed, the server reads both files again, without a restart. If the files cannot be read, the
// previous certificate stays in use.
type certificate struct {
	cert, key string // file names
	log       *slog.Logger

	mu     lock.Mutex
	shown  *tls.Certificate // the certificate in use; never nil
	files  [2]time.Time     // modification times of the files at the last attempt to read them
	looked time.Time
	warned bool // whether the log has a warning that shown is expired or not yet valid
}

// openCertificate reads the certificate that cfg names.
func openCertificate(cfg *Config, log *slog.Logger) (*certificate, error) {
	c := &certificate{cert: cfg.TLSCert, key: cfg.TLSKey, log: log, looked: time.Now()}
	var err error
	if c.files, err = c.changed(); err == nil {
		err = c.load()
	}
	if _, ok := errors.AsType[*fs.PathError](err); err != nil && !ok {
		err = fmt.Errorf("%s, %s: %w", c.cert, c.key, err)
	}
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	if report := c.outOfDate(c.looked); report != nil {
		report()
	}
	return c, nil
}

// TLS returns a configuration for listeners.
func (c *certificate) TLS() *tls.Config {
	return &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return c.get(time.Now()), nil
	}}
}

func (c *certificate) get(now time.Time) *tls.Certificate {
	c.mu.Lock()
	var report func()
	if now.Sub(c.looked) >= certificateLook {
		c.looked = now
		report = c.reloadIfChanged(now)
	}
	shown := c.shown
	c.mu.Unlock()
	if report != nil {
		go report() // in a goroutine, so that the handshake does not wait for the log
	}
	return shown
}

// Reload reads the certificate and the key again if their files have changed.
func (c *certificate) Reload() {
	c.mu.Lock()
	report := c.reloadIfChanged(time.Now())
	c.mu.Unlock()
	if report != nil {
		report()
	}
}

// reloadIfChanged reads the certificate again if its files have changed. It returns a function that
// logs the result, or nil if there is nothing to log. The caller must hold c.mu.
func (c *certificate) reloadIfChanged(now time.Time) (report func()) {
	files, err := c.changed()
	if err == nil && files == c.files {
		return c.outOfDate(now)
	}
	c.files = files
	if err == nil {
		err = c.load()
	}
	if err != nil {
		return func() {
			c.log.Warn("the certificate has changed and cannot be read: the one before is shown",
				"cert", c.cert, "key", c.key, "reason", err)
		}
	}
	until := c.shown.Leaf.NotAfter
	c.warned = false
	warn := c.outOfDate(now)
	return func() {
		c.log.Info("the certificate was read again", "cert", c.cert, "until", until)
		if warn != nil {
			warn()
		}
	}
}

// outOfDate checks the validity period of the certificate. If the certificate has expired or is not
// yet valid, outOfDate returns a function that logs a warning. If the certificate is valid, or if
// the warning was already logged, outOfDate returns nil. The caller must hold c.mu, unless no other
// goroutine can use c yet.
func (c *certificate) outOfDate(now time.Time) (report func()) {
	leaf := c.shown.Leaf
	if c.warned || !now.Before(leaf.NotBefore) && !now.After(leaf.NotAfter) {
		return nil
	}
	c.warned = true
	return func() {
		c.log.Warn("the certificate is out of date: clients refuse it until it is renewed",
			"cert", c.cert, "from", leaf.NotBefore, "until", leaf.NotAfter)
	}
}

// changed returns the modification times of the certificate file and the key file.
func (c *certificate) changed() (at [2]time.Time, err error) {
	for i, name := range []string{c.cert, c.key} {
		info, err := os.Stat(name)
		if err != nil {
			return [2]time.Time{}, err
		}
		at[i] = info.ModTime()
	}
	return at, nil
}

func (c *certificate) load() error {
	read, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err == nil {
		c.shown = &read
	}
	return err
}
