package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace-io/millrace/server/internal/access"
	"github.com/millrace-io/millrace/server/internal/live"
	"github.com/millrace-io/millrace/server/internal/live/record"
	"github.com/millrace-io/millrace/server/internal/streamname"
)

// recordings records streams to files. A nil *recordings records nothing.
type recordings struct{ *record.Archive }

// openRecords opens the directory for recordings. It sets streams.Record, so that streams are
// recorded to this directory. If cfg names no directory, openRecords returns nil. The caller must
// call close.
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
		if !streamname.Match(cfg.RecordStreams, name) {
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

// await waits until this process may write recordings. If this process replaces another process,
// await waits until that process has ended its recordings.
func (r *recordings) await(ctx context.Context) error {
	if r == nil {
		return nil
	}
	if err := r.Await(ctx); err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	return nil
}

// close waits until all recordings are on the disk. If ctx ends first, close returns an error.
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
