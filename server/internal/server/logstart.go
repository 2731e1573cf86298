package server

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/store"
)

func (s *Server) logStart(l Listeners) {
	ln, admin := l.Main, l.Admin
	s.log.Info("listening", "address", ln.Addr().String(), "page", s.pageLink(ln.Addr()), "version",
		s.cfg.Version)
	if admin != nil {
		s.log.Info("admin listening", "address", admin.Addr().String())
		if s.cfg.AdminToken == "" && !access.IsLoopback(admin.Addr()) {
			s.log.Warn("the admin listener can be reached from other machines: without --admin-token it shows profiles to everyone")
		}
	}
	if l.HTTP != nil {
		s.log.Info("redirecting to https", "address", l.HTTP.Addr().String())
	}
	for _, ln := range []net.Listener{l.RTMP, l.RTMPS} {
		if ln != nil {
			s.log.Info("RTMP listening", "address", ln.Addr().String(), "tls", ln == l.RTMPS)
			if s.gate.Policy().On(access.IsLoopback(ln.Addr())).Publishing() == "off" {
				s.log.Warn("publishing over RTMP is off: other machines can reach this listener; set --publish-token",
					"address", ln.Addr().String())
			}
		}
	}
	if s.files != nil {
		s.log.Info("serving files",
			"root", s.cfg.Root, "at", s.pageLink(ln.Addr())+store.FilesPath[1:], "lists",
			s.cfg.FilesListing)
	}
	if s.records != nil {
		s.log.Info("recording streams", "in", s.cfg.Record, "named", s.cfg.RecordStreams)
	}
	if s.node != nil {
		s.log.Info("sharing streams with other nodes", "as", s.cfg.self())
		if _, host, _ := strings.Cut(s.cfg.self(), "://"); access.IsLoopback(ln.Addr()) &&
			!access.IsThisMachine(host) {
			s.log.Warn("no other node can reach this listener: --listen is for this machine only",
				"advertised", s.cfg.self())
		}
	}
	if s.blobs != nil {
		s.log.Info("keeping blobs", "in", s.blobs.Where(), "at",
			s.pageLink(ln.Addr())+store.BlobsPath[1:])
		if s.files != nil && s.cfg.Blobs != "" && isWithin(s.cfg.Blobs, s.cfg.Root) {
			s.log.Warn("blobs can be read at /files/ too: --blobs lies in --root")
		}
	}
	if s.cfg.ReadToken != "" {
		s.log.Info("reading needs the token", "page", s.pageLink(ln.Addr())+"?token=TOKEN")
	}
	s.warnOfTokens(&s.cfg)
	publish := s.gate.Policy().Publishing()
	if publish == "open" && s.cfg.TrustedProxies != "" {
		s.log.Warn("clients of the proxies may publish if the proxy forwards a Host that names this machine; set --publish-token",
			"proxies", s.cfg.TrustedProxies)
	}
	if publish == "off" {
		s.log.Warn("publishing is off: other machines can reach this listener; set --publish-token")
	}
}

// warnOfTokens logs a warning for each token that must be escaped in a URL, and for private keys
// that the server does not need.
func (s *Server) warnOfTokens(cfg *Config) {
	for _, t := range []struct{ flag, token string }{
		{"publish-token", cfg.PublishToken}, {"read-token", cfg.ReadToken},
		{"admin-token", cfg.AdminToken},
	} {
		if changedInURL(t.token) {
			s.log.Warn("the token has characters that addresses and programs may change: "+
				"escape them in addresses, or choose letters, digits and -._~", "flag", "--"+t.flag)
		}
	}
	if ids := s.gate.Policy().Keys.PrivateIDs(); len(ids) > 0 {
		s.log.Warn("the file of --token-key has private keys: keep these with the program that signs, "+
			"and give the server only the public keys", "keys", ids)
	}
}

// changedInURL reports whether token contains characters that have a meaning in a URL, or that a
// program may change when it reads a URL.
func changedInURL(token string) bool {
	return strings.HasSuffix(token, "/") || strings.ContainsFunc(token, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("+%&;#?\"'<>\\^`{|}[]", r)
	})
}

func isWithin(path, dir string) bool {
	path, err1 := filepath.Abs(path)
	dir, err2 := filepath.Abs(dir)
	rel, err := filepath.Rel(dir, path)
	return err1 == nil && err2 == nil && err == nil && filepath.IsLocal(rel)
}

// pageLink returns the URL of the page for a browser on this machine. Not every browser opens
// 0.0.0.0, so the URL has 127.0.0.1 instead.
func (s *Server) pageLink(a net.Addr) string {
	host := a.String()
	if tcp, ok := a.(*net.TCPAddr); ok && (len(tcp.IP) == 0 || tcp.IP.IsUnspecified()) {
		host = net.JoinHostPort("127.0.0.1", strconv.Itoa(tcp.Port))
	}
	if s.cert != nil {
		return "https://" + host + "/"
	}
	return "http://" + host + "/"
}
