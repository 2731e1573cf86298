package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/millrace-io/millrace/internal/load"
	"github.com/millrace-io/millrace/internal/observe"
)

const (
	// probeEvery is how often a probe sends: ten times or more in each interval.
	probeEvery = 5 * time.Millisecond
	// probeRecord is what it sends: the time in nanoseconds.
	probeRecord = 8
)

// A probe is a stream of its own beside a load, through the same relay: each of its records carries the time at which it
// left, and its one viewer knows how long it took. It tells of each interval what a load tells of the whole.
type probe struct {
	latencies observe.Latencies

	cancel context.CancelFunc
	both   sync.WaitGroup
	errs   [2]error // of the publisher and the viewer
}

// startProbe publishes the stream, and returns when it has a viewer.
func startProbe(ctx context.Context, addr string) (*probe, error) {
	ctx, cancel := context.WithCancel(ctx)
	p := &probe{cancel: cancel}
	transport := &http.Transport{DisableCompression: true, DisableKeepAlives: true}
	c := &http.Client{Transport: transport}
	url := "http://" + addr + "/live/bench-probe"
	p.both.Go(func() { p.errs[0] = ended(ctx, p.publish(ctx, c, url)) })
	body, err := watch(ctx, c, url)
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	p.both.Go(func() {
		defer body.Close()
		p.errs[1] = ended(ctx, p.receive(body))
	})
	return p, nil
}

// stop ends the probe, and says whether it had ended before.
func (p *probe) stop() error {
	p.cancel()
	p.both.Wait()
	if err := errors.Join(p.errs[:]...); err != nil {
		return fmt.Errorf("probe: %w", err)
	}
	return nil
}

// ended is err, unless it was ctx that ended the probe.
func ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (p *probe) publish(ctx context.Context, c *http.Client, url string) error {
	body, w := io.Pipe()
	p.both.Go(func() {
		for t := time.NewTicker(probeEvery); ; {
			record := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
			if _, err := w.Write(record); err != nil {
				return
			}
			select {
			case <-ctx.Done():
				t.Stop()
				_ = w.CloseWithError(ctx.Err())
				return
			case <-t.C:
			}
		}
	})
	defer body.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, body)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return fmt.Errorf("publishing ended with %s", resp.Status)
}

// watch waits until the server lets a viewer in: it waits for the publisher itself.
func watch(ctx context.Context, c *http.Client, url string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, fmt.Errorf("watching the probe: %s", resp.Status)
	}
	return resp.Body, nil
}

// receive records how old each record is when it comes. What was sent before this viewer came is history.
func (p *probe) receive(body io.Reader) error {
	joined := time.Now().UnixNano()
	var record [probeRecord]byte
	for {
		if _, err := io.ReadFull(body, record[:]); err != nil {
			return err
		}
		sent := int64(binary.BigEndian.Uint64(record[:]))
		if now := time.Now().UnixNano(); joined <= sent && sent <= now {
			p.latencies.Record(time.Duration(now-sent), probeRecord)
		}
	}
}

// atomicProgress is what a load has told of itself, on one goroutine, and what was asked of it, on another.
type atomicProgress struct {
	mu        sync.Mutex
	now, told load.Progress // guarded by mu
}

func (a *atomicProgress) store(p load.Progress) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.now = p
}

// since is what has come since it was called last: frames, bytes, and frames lost or viewers gone.
func (a *atomicProgress) since() (operations, bytes, errors int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	operations = a.now.Tags - a.told.Tags
	bytes = a.now.Bytes - a.told.Bytes
	errors = a.now.Lost + a.now.Ended - a.told.Lost - a.told.Ended
	a.told = a.now
	return operations, bytes, errors
}
