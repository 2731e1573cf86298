package server

import (
	"reflect"

	"github.com/millrace-io/millrace/server/internal/access"
)

// Reloadable lists the flags that Reload applies. Other flags need a restart.
var Reloadable = []string{
	"publish-token", "read-token", "admin-token", "token-key", "cors", "trusted-proxies",
	"max-streams", "max-viewers", "max-stream-viewers", "max-downloads", "max-uploads",
	"max-connections", "max-address-connections", "max-address-viewers", "max-address-bytes",
}

// Reload applies the tokens and limits of cfg, which must have been checked. It also reads the keys
// of signed tokens again, and the certificate if its files have changed. Running streams and
// transfers continue. Reload must not be called before Config.Ready is called.
func (s *Server) Reload(cfg *Config) {
	next := *s.gate.Policy()
	opens := next.Read != "" && cfg.ReadToken == ""
	next.Publish, next.Read = cfg.PublishToken, cfg.ReadToken
	if keys, err := cfg.tokenKeys(); err == nil {
		if !reflect.DeepEqual(keys, next.Keys) {
			s.log.Info("the keys of signed tokens were read again", "keys", keys.IDs())
		}
		next.Keys = keys
	} else {
		s.log.Error("the keys of signed tokens cannot be used: those before are in force", "reason",
			err)
	}
	s.gate.SetPolicy(&next)
	if opens {
		s.log.Warn("reading needs no token from now on: the configuration no longer has --read-token")
	}
	s.warnOfTokens(cfg)
	if admin := s.operator.Policy(); admin != nil {
		if admin.Read != "" && cfg.AdminToken == "" && !admin.Loopback {
			s.log.Warn("the admin listener needs no token from now on, and other machines can reach it: " +
				"the configuration no longer has --admin-token")
		}
		s.operator.SetPolicy(&access.Policy{Read: cfg.AdminToken, Loopback: admin.Loopback})
	}
	s.origins.Set(cfg.origins())

	s.clients.setLimits(cfg)
	s.connections.setLimit(cfg.MaxConnections)
	s.hub.SetLimits(cfg.MaxStreams, cfg.MaxViewers, cfg.MaxStreamViewers)
	s.files.SetLimit(cfg.MaxDownloads)
	s.blobs.SetLimits(cfg.MaxDownloads, cfg.MaxUploads)
	if s.cert != nil {
		s.cert.Reload()
	}
}
