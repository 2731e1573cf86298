package server

import "fmt"

// Reloadable are the flags of what Reload takes over.
var Reloadable = []string{
	"publish-token", "read-token", "max-streams", "max-viewers", "max-stream-viewers", "max-downloads", "max-uploads",
	"trusted-proxies", "max-connections", "max-address-connections", "max-address-viewers", "max-address-bytes",
}

// Reload takes tokens and limits from cfg, which was checked, and reads the certificate's files again if they have
// changed. What goes on already goes on. Config.Ready was called before.
func (s *Server) Reload(cfg *Config) {
	publish := *s.publishAuth.Load()
	publish.token = cfg.PublishToken
	s.publishAuth.Store(&publish)
	read := newReadAuth(cfg.ReadToken, cfg.PublishToken, nil)
	read.loopback = publish.loopback
	s.readAuth.Store(read)

	s.setAddresses(cfg)
	s.connections.setLimit(cfg.MaxConnections)
	s.relay.SetLimits(cfg.MaxStreams, cfg.MaxViewers, cfg.MaxStreamViewers)
	if s.files != nil {
		s.files.downloads.SetLimit(cfg.MaxDownloads, tooMany("files", "sent", cfg.MaxDownloads, "downloads"))
	}
	if s.blobs != nil {
		s.blobs.downloads.SetLimit(cfg.MaxDownloads, tooMany("blobs", "sent", cfg.MaxDownloads, "downloads"))
		s.blobs.uploads.SetLimit(cfg.MaxUploads, tooMany("blobs", "received", cfg.MaxUploads, "uploads"))
	}
	s.cert.reload()
}

func tooMany(things, done string, limit int, flag string) error {
	return fmt.Errorf("%d %s are being %s already, as many as --max-%s allows", limit, things, done, flag)
}
