package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// authority signs the certificate that all servers and clients of one test binary have. It lives in memory only, and nothing
// else trusts it.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	peer tls.Certificate // for 127.0.0.1, ::1 and localhost
}

var theAuthority = sync.OnceValues(newAuthority)

func newAuthority() (*authority, error) {
	a := new(authority)
	root, err := a.issue(&x509.Certificate{
		Subject:               pkix.Name{CommonName: "redistest CA"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	})
	if err != nil {
		return nil, err
	}
	a.cert, a.key = root.Leaf, root.PrivateKey.(*ecdsa.PrivateKey)
	a.peer, err = a.issue(&x509.Certificate{
		Subject:     pkix.Name{CommonName: "redistest"},
		DNSNames:    []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	return a, err
}

// issue completes the template and signs it: by the authority, or by its own key as long as there is no authority.
func (a *authority) issue(template *x509.Certificate) (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(24 * time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		return tls.Certificate{}, err
	}
	leaf, err := x509.ParseCertificate(der)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

// clientConfig returns a new configuration for a client that has a certificate and trusts the authority alone. The
// server's name is set, so that it fits a [Proxy]'s address as well.
func (a *authority) clientConfig() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{
		RootCAs:      roots,
		Certificates: []tls.Certificate{a.peer},
		ServerName:   "localhost",
		MinVersion:   tls.VersionTLS12,
	}
}

// files writes what a server needs to dir and returns the lines of redis.conf that name it.
func (a *authority) files(dir string) ([]string, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.peer.PrivateKey)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, f := range []struct {
		directive, name, kind string
		der                   []byte
	}{
		{"tls-ca-cert-file", "ca.crt", "CERTIFICATE", a.cert.Raw},
		{"tls-cert-file", "server.crt", "CERTIFICATE", a.peer.Leaf.Raw},
		{"tls-key-file", "server.key", "PRIVATE KEY", der},
	} {
		path := filepath.Join(dir, f.name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der}), 0o600); err != nil {
			return nil, err
		}
		lines = append(lines, f.directive+" "+path)
	}
	return lines, nil
}
