package cluster

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/frame/hls"
	"github.com/millrace-io/millrace/internal/streamname"
)

const (
	// stateName is the name of the file of the state. No object has that name.
	stateName = "hls"
	// newFile is what the names of files begin with that are not whole yet.
	newFile = ".new-"
	// maxState limits a file of state, in bytes: that of 10,000 segments.
	maxState = 4 << 20
)

// dirStore is a store in a directory that nodes share, as by NFS. It has a directory for each stream:
//
//	STREAM/OBJECT
//	STREAM/hls        the epoch, a line break, and the state
//	STREAM/.new-ABC   being written
//
// The directory of tenant/cam is tenant+cam, so that no stream is in the directory of another one.
//
// A file that has its name is whole, and does not change. Each node deletes what is old, whichever node has written it.
type dirStore struct {
	root     *os.Root
	keep     time.Duration
	stop     chan struct{}
	sweeping sync.WaitGroup
}

// OpenSegmentsDir returns Segments in a directory, which must exist, and deletes there what is older than keep: of the names
// that it uses, nothing else. The call that ends their life is Close.
func OpenSegmentsDir(name string, keep time.Duration, log *slog.Logger) (*Segments, error) {
	root, err := os.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	s := &dirStore{root: root, keep: keep, stop: make(chan struct{})}
	s.sweeping.Go(func() {
		ticker := time.NewTicker(max(keep/4, time.Second))
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.sweep()
			case <-s.stop:
				return
			}
		}
	})
	return newSegments(s, log), nil
}

// dirOf returns the directory of a stream, and streamOf the stream of a directory. No name has a plus.
func dirOf(stream string) string { return strings.ReplaceAll(stream, "/", "+") }
func streamOf(dir string) string { return strings.ReplaceAll(dir, "+", "/") }

func (s *dirStore) set(_ context.Context, stream, object string, body *millrace.Chain) error {
	dir := dirOf(stream)
	_ = s.root.Mkdir(dir, 0o700) // or it is there
	pending := dir + "/" + newFile + rand.Text()
	f, err := s.root.OpenFile(pending, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	var c millrace.Chain
	defer c.Release()
	body.Clone(&c)
	_, err = c.WriteTo(f)
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.root.Rename(pending, dir+"/"+object)
	}
	if err != nil {
		_ = s.root.Remove(pending)
	}
	return err
}

// setState may replace a newer state that another node saves at the same moment: that node saves again with its next segment.
func (s *dirStore) setState(ctx context.Context, stream string, epoch uint64, state []byte) error {
	if old, _, err := s.readState(stream); err == nil && old > epoch {
		return nil
	}
	var c millrace.Chain
	defer c.Release()
	c.AppendCopy(strconv.AppendUint(nil, epoch, 10))
	c.AppendCopy([]byte("\n"))
	c.AppendCopy(state)
	return s.set(ctx, stream, stateName, &c)
}

func (s *dirStore) state(_ context.Context, stream string) ([]byte, error) {
	_, state, err := s.readState(stream)
	return state, err
}

func (s *dirStore) readState(stream string) (epoch uint64, state []byte, err error) {
	var c millrace.Chain
	defer c.Release()
	if err := s.read(dirOf(stream)+"/"+stateName, &c, maxState); err != nil {
		return 0, nil, err
	}
	line, state, _ := bytes.Cut(c.Bytes(), []byte("\n"))
	if epoch, err = strconv.ParseUint(string(line), 10, 64); err != nil {
		return 0, nil, fmt.Errorf("%s/%s: %w", stream, stateName, err)
	}
	return epoch, bytes.Clone(state), nil
}

func (s *dirStore) get(_ context.Context, stream, object string, dst *millrace.Chain, limit int) error {
	return s.read(dirOf(stream)+"/"+object, dst, limit)
}

// read appends a file of at most limit bytes to dst, unless it is old.
func (s *dirStore) read(name string, dst *millrace.Chain, limit int) error {
	f, err := s.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return errNotStored
	} else if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return err
	case s.isOld(info):
		return errNotStored
	case info.Size() > int64(limit):
		return fmt.Errorf("%s has %d bytes, more than %d", name, info.Size(), limit)
	}
	var c millrace.Chain
	defer c.Release()
	if _, err = c.ReadFrom(f); err == nil {
		dst.Merge(&c)
	}
	return err
}

func (s *dirStore) isOld(info fs.FileInfo) bool { return time.Since(info.ModTime()) > s.keep }

// sweep deletes what is old. What cannot be read or deleted is left for the next time.
func (s *dirStore) sweep() {
	streams, _ := fs.ReadDir(s.root.FS(), ".")
	for _, stream := range streams {
		if !stream.IsDir() || streamname.Check(streamOf(stream.Name())) != nil {
			continue
		}
		files, _ := fs.ReadDir(s.root.FS(), stream.Name())
		for _, file := range files {
			name := file.Name()
			_, isObject := hls.ParseObject(name)
			if !isObject && name != stateName && !strings.HasPrefix(name, newFile) || !file.Type().IsRegular() {
				continue
			}
			if info, err := file.Info(); err == nil && s.isOld(info) {
				_ = s.root.Remove(stream.Name() + "/" + name)
			}
		}
		_ = s.root.Remove(stream.Name()) // if it is empty
	}
}

func (s *dirStore) close() error {
	close(s.stop)
	s.sweeping.Wait()
	return s.root.Close()
}
