package server

import (
	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/answer"
	"github.com/millrace-io/millrace/server/internal/store"
)

func (c *Config) downloads() store.DownloadConfig {
	return store.DownloadConfig{Max: c.MaxDownloads, StallTimeout: c.StallTimeout, Unsent: c.Unsent,
		Log: c.Log}
}

// openFiles opens the directory of static files that cfg configures. If cfg configures no such
// directory, openFiles returns nil. The caller must close the result.
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

// openBlobs opens the store for blobs that cfg configures, a directory or Redis. If cfg configures
// no store, openBlobs returns nil. The caller must close the result.
func openBlobs(
	cfg *Config, gate *access.Gate, refusals *access.Refusals, budget *answer.Budget,
) (*store.Blobs, error) {
	at := store.BlobsConfig{
		Dir: cfg.Blobs, Successor: cfg.Successor, RedisPrefix: cfg.RedisPrefix,
		MaxBytes: cfg.MaxBlobBytes, MaxUploads: cfg.MaxUploads, UploadTimeout: cfg.PublishTimeout,
		Downloads: cfg.downloads(),
	}
	switch {
	case cfg.Blobs != "": // cfg was checked, so Redis is not set
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
