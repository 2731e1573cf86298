package server

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/millrace-io/millrace/server/internal/record"
	"github.com/millrace-io/millrace/server/internal/relay"
)

// openRecords sets what records the streams, and returns nil if the configuration names no directory. The call that
// ends the archive's life is its Close.
func openRecords(s *Server, streams *relay.Config) (*record.Archive, error) {
	cfg := &s.cfg
	if cfg.Record == "" {
		return nil, nil
	}
	archive, err := record.Open(record.Config{
		Dir: cfg.Record, MaxBytes: cfg.RecordBytes, QueueBytes: cfg.RecordQueue, Every: cfg.RecordEvery, Log: s.log,
		Successor: cfg.Successor,
		Admit:     s.access.admitRecording(),
	})
	if err != nil {
		return nil, fmt.Errorf("--record: %w", err)
	}
	streams.Record = func(name string) relay.Recorder {
		if !recorded(cfg.RecordStreams, name) {
			return nil
		}
		r, err := archive.Stream(name)
		if err != nil {
			s.log.Error("a stream is not recorded", "stream", name, "reason", err)
			return nil
		}
		return r
	}
	return archive, nil
}

// AwaitRecords waits until the directory of recordings, if there is one, is this process's: see Config.Successor.
func (s *Server) AwaitRecords(ctx context.Context) error {
	if s.records == nil {
		return nil
	}
	if err := s.records.Await(ctx); err != nil {
		return fmt.Errorf("--record: %w", err)
	}
	return nil
}

// recorded reports whether a pattern, which was checked, matches the name of a stream. In it * stands for slashes, too.
func recorded(pattern, name string) bool {
	const slash = ":" // which names do not have
	ok, _ := path.Match(strings.ReplaceAll(pattern, "/", slash), strings.ReplaceAll(name, "/", slash))
	return ok
}

// closeRecords waits until what was recorded is on the disk, or ctx ends.
func (s *Server) closeRecords(ctx context.Context) error {
	if s.records == nil {
		return nil
	}
	err := s.records.Close(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return errors.New("--record: the disk is too slow: the end of a recording is lost")
	}
	return err
}

// collectRecords reports the metrics of recordings.
func (s *Server) collectRecords(c scrape) {
	if s.records == nil {
		return
	}
	st := s.records.Stats()
	c.gauge("recordings", "Streams that are being recorded.", int64(st.Recordings))
	c.gauge("recordings_bytes", "Bytes of all recordings.", st.Bytes)
	c.gauge("recordings_queued_bytes", "Bytes that wait for the disk.", st.Queued)
	c.counter("recordings_written_bytes_total", "Bytes of recordings that were written.", st.Written)
	c.counter("recordings_lost_total", "Fragments that are in no recording: the disk was too slow, or failed.", st.Lost)
	c.counter("recordings_refused_total", "Streams that are in no recording, although they should be.", st.Refused)
	c.counter("recordings_failures_total", "Errors of the disk.", st.Failures)
	c.counter("recordings_removed_total", "Recordings that were deleted because of --record-bytes.", st.Removed)
}
