package soakcluster

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/millrace-io/millrace/bench/fmp4"
	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/internal/sleep"
)

// content returns size bytes that depend on id.
func content(id uint64, size int) []byte {
	b := make([]byte, size)
	r := rand.NewPCG(id, 7)
	for i := 0; i < size; i += 8 {
		var word [8]byte
		binary.LittleEndian.PutUint64(word[:], r.Uint64())
		copy(b[i:], word[:])
	}
	return b
}

var fileSizes = []int{0, 1, 3000, 70_001, 1<<20 + 7, 6 << 20}

func makeFiles(dir string) error {
	for i, size := range fileSizes {
		name := filepath.Join(dir, fmt.Sprint(i))
		if err := os.WriteFile(name, content(uint64(i), size), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// files downloads files, whole and in part, from a node.
func (r *run) files(ctx context.Context, node int) {
	rnd := rand.New(rand.NewPCG(r.cfg.Seed, uint64(1000+node)))
	client := r.site.client(node == 1)
	defer client.CloseIdleConnections()
	for ctx.Err() == nil {
		which := rnd.IntN(len(fileSizes))
		want := content(uint64(which), fileSizes[which])
		var header string
		if len(want) > 1 && rnd.IntN(2) == 0 {
			from := rnd.IntN(len(want))
			to := from + rnd.IntN(len(want)-from)
			header, want = fmt.Sprintf("bytes=%d-%d", from, to), want[from:to+1]
		}
		url := fmt.Sprintf("%s/files/%d", r.site.nodes[node].url(), which)
		got, status, err := request(ctx, client, http.MethodGet, url, nil, header)
		switch {
		case err != nil || status >= 500:
			r.done.add("files", "interrupted", 1)
			sleep.For(ctx, 100*time.Millisecond)
			continue
		case status/100 != 2 || !bytes.Equal(got, want):
			r.faults.add("file %d (%s) at node %d: status %d, %d bytes, want %d", which, header, node,
				status, len(got), len(want))
		}
		r.done.add("files", "connections", 1)
		r.done.add("files", "bytes", int64(len(got)))
		sleep.For(ctx, 50*time.Millisecond)
	}
}

// blobs writes and reads a blob at a node. A value that was confirmed must be found later, also
// after the node was killed.
func (r *run) blobs(ctx context.Context, node int) {
	rnd := rand.New(rand.NewPCG(r.cfg.Seed, uint64(2000+node)))
	client := r.site.client(node == 1)
	defer client.CloseIdleConnections()
	url := fmt.Sprintf("%s/blobs/soak/%d", r.site.nodes[node].url(), node)
	var confirmed, begun uint64 // numbers of writes; the value has the number of its write
	for ctx.Err() == nil {
		var err error
		var status int
		var got []byte
		if rnd.IntN(3) == 0 {
			begun++
			value := content(begun, 8+rnd.IntN(300_000))
			binary.BigEndian.PutUint64(value, begun)
			_, status, err = request(ctx, client, http.MethodPut, url, value, "")
			if err == nil && status/100 == 2 {
				confirmed = begun
			}
		} else {
			got, status, err = request(ctx, client, http.MethodGet, url, nil, "")
			var write uint64
			if err == nil && status == http.StatusOK && len(got) >= 8 {
				write = binary.BigEndian.Uint64(got)
				want := content(write, len(got))
				if !bytes.Equal(got[8:], want[8:]) {
					r.faults.add("a blob at node %d: wrong bytes in the value of write %d", node, write)
				}
			}
			if err == nil && (status == http.StatusOK || status == http.StatusNotFound) &&
				(write < confirmed || write > begun) {
				r.faults.add("a blob at node %d: status %d, write %d, want %d to %d", node, status,
					write, confirmed, begun)
			}
			confirmed = max(confirmed, write)
		}
		if err != nil || status >= 500 {
			r.done.add("blobs", "interrupted", 1)
			sleep.For(ctx, 100*time.Millisecond)
			continue
		}
		r.done.add("blobs", "connections", 1)
		r.done.add("blobs", "bytes", int64(len(got)))
		sleep.For(ctx, 50*time.Millisecond)
	}
}

func request(ctx context.Context, client *http.Client, method, url string, body []byte,
	byteRange string) (got []byte, status int, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	if byteRange != "" {
		req.Header.Set("Range", byteRange)
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer res.Body.Close()
	got, err = io.ReadAll(res.Body)
	return got, res.StatusCode, err
}

// checkRecordings checks every sample of all recordings.
func (r *run) checkRecordings() {
	for _, n := range r.site.nodes {
		names, err := filepath.Glob(filepath.Join(n.recordDir(), "*", "*.mp4"))
		if err != nil {
			r.faults.add("recordings: %v", err)
		}
		for _, name := range names {
			if err := r.checkRecording(name); err != nil {
				r.faults.add("recording %s of %s: %v", filepath.Base(name), n.name(), err)
			}
		}
	}
}

func (r *run) checkRecording(name string) error {
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	var number int
	if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(name)), "soak-%d", &number); err != nil {
		return err
	}
	synth := r.streams[number].synth()
	var last [load.Video + 1]uint64
	var file fmp4.Reader
	err = file.Bytes(data, func(s fmp4.Sample) error {
		seq, _, err := synth.Verify(s.Kind, s.Payload)
		if err != nil {
			return fmt.Errorf("after tag %d: %w", last[s.Kind], err)
		}
		last[s.Kind] = seq
		r.done.add("recordings", "bytes", int64(len(s.Payload)))
		return nil
	})
	r.done.add("recordings", "connections", 1)
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = fmt.Errorf("its end was not repaired: %w", err)
	}
	return err
}
