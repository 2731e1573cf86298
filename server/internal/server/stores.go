package server

import (
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/store"
)

// downloads returns the limits of downloads.
func (c *Config) downloads() store.DownloadConfig {
	return store.DownloadConfig{Max: c.MaxDownloads, StallTimeout: c.StallTimeout, Unsent: c.Unsent,
		Log: c.Log}
}

// openFiles returns nil if the configuration names no root. The call that ends the files' life is
// their Close.
func openFiles(cfg *Config, budget *answer.Budget) (*store.Files, error) {
	if cfg.Root == "" {
		return nil, nil
	}
	return store.OpenFiles(store.FilesConfig{
		Root: cfg.Root, Listing: cfg.FilesListing, Precompressed: cfg.FilesPrecompressed,
		DropBehind: cfg.FilesDropBehind,
		Downloads:  cfg.downloads(),
	}, budget)
}

// openBlobs returns nil if the configuration names no store. The call that ends the blobs' life is
// their Close.
func openBlobs(
	cfg *Config, gate *access.Gate, refusals *access.Refusals, budget *answer.Budget,
) (*store.Blobs, error) {
	at := store.BlobsConfig{
		Dir: cfg.Blobs, Successor: cfg.Successor, RedisPrefix: cfg.RedisPrefix,
		MaxBytes: cfg.MaxBlobBytes, MaxUploads: cfg.MaxUploads, UploadTimeout: cfg.PublishTimeout,
		Downloads: cfg.downloads(),
	}
	switch {
	case cfg.Blobs != "": // and no Redis, as was checked
	case cfg.Redis == "":
		return nil, nil
	default:
		var err error
		if at.Redis, err = cfg.redisOptions(); err != nil {
			return nil, err
		}
	}
	return store.OpenBlobs(at, gate, refusals, budget)
}
