package server

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/record"
)

// recordings are the streams as files. A nil recordings has none.
type recordings struct{ *record.Archive }

// openRecords sets the recorder of streams, and returns nil if the configuration names no
// directory. The caller calls close.
func openRecords(cfg *Config, gate *access.Gate, streams *live.Config) (*recordings, error) {
	if cfg.Record == "" {
		return nil, nil
	}
	config := record.Config{
		Dir: cfg.Record, MaxBytes: cfg.RecordBytes, QueueBytes: cfg.RecordQueue,
		Every: cfg.RecordEvery, Log: cfg.Log,
		Successor: cfg.Successor,
	}
	if gate.HasHook() {
		config.Admit = gate.AskRecording
	}
	archive, err := record.Open(config)
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	streams.Record = func(name string) live.Recorder {
		if !recorded(cfg.RecordStreams, name) {
			return nil
		}
		r, err := archive.Stream(name)
		if err != nil {
			cfg.Log.Error("a stream is not recorded", "stream", name, "reason", err)
			return nil
		}
		return r
	}
	return &recordings{archive}, nil
}

// await waits until the directory is this process's: see Config.Successor.
func (r *recordings) await(ctx context.Context) error {
	if r == nil {
		return nil
	}
	if err := r.Await(ctx); err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	return nil
}

// recorded reports whether a pattern, which was checked, matches the name of a stream. In it *
// stands for slashes, too.
func recorded(pattern, name string) bool {
	const slash = ":" // which names do not have
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", slash),
		strings.ReplaceAll(name, "/", slash))
	return ok
}

// close waits until the recordings are on the disk, or ctx ends.
func (r *recordings) close(ctx context.Context) error {
	if r == nil {
		return nil
	}
	err := r.Close(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("--record: the disk is too slow: the end of a recording is lost")
	}
	return err
}
