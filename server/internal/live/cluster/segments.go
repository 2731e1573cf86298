package cluster

import (
	"context"
	"hash/maphash"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/media/hls"
	"github.com/millrace-io/millrace/server/internal/live/hlslive"
	"github.com/millrace-io/millrace/server/internal/lock"
	"github.com/millrace-io/millrace/server/internal/outage"
)

const (
	// savers is the number of concurrent saves. Objects of one stream are saved in the order of the
	// calls to Save.
	savers = 4
	// saverQueue limits the queue of each saver, in objects. A node with 200 streams saves 200
	// objects in two seconds.
	saverQueue = 256
	// saverBytes limits the bytes of all objects that wait to be saved. It is enough for a few
	// seconds of 200 streams at 2 Mbit/s.
	saverBytes = 128 << 20
	// saveWait limits the time to save or load one object.
	saveWait = 3 * time.Second
)

// A store is where Segments keeps its data. Its methods may be called from any goroutine. Each
// store determines when values expire.
type store interface {
	// set saves the bytes in body as an object of a stream. It borrows body.
	set(ctx context.Context, stream, object string, body *millrace.Chain) error
	// setState saves the state of a stream's playlist, unless the stored state has a later epoch.
	setState(ctx context.Context, stream string, epoch uint64, state []byte) error
	// get appends the bytes of an object to dst, and reports whether the object exists. If the
	// object is longer than limit bytes, get returns an error.
	get(ctx context.Context, stream, object string, dst *millrace.Chain, limit int) (found bool,
		err error)
	// state returns the saved state of a stream's playlist, or nil if there is none.
	state(ctx context.Context, stream string) ([]byte, error)
	close() error
}

// Segments keeps the newest HLS segments of this node's streams in a store, so that they remain
// available after the node has ended. It implements [hlslive.SegmentStore].
type Segments struct {
	store  store
	log    *slog.Logger
	seed   maphash.Seed
	ctx    context.Context // ends when Close stops waiting; after that, nothing is saved
	stop   context.CancelFunc
	saving sync.WaitGroup
	outage outage.Outage

	saved, lost, loaded, waiting, bytes atomic.Int64 // waiting counts bytes

	mu     lock.Mutex
	closed bool // Close was called, and the queues are closed
	queues [savers]chan saveJob
	// newest maps the name of each stream to the newest playlist state that waits in a queue. Older
	// states of the stream need not be saved.
	newest map[string]*savedState
}

var _ hlslive.SegmentStore = (*Segments)(nil)

// A saveJob is an HLS object or a playlist state that is to be saved.
type saveJob struct {
	stream, object string
	body           millrace.Chain // the bytes of the object; owned by the job
	state          *savedState    // nil for an object
}

type savedState struct {
	epoch uint64
	text  []byte
}

// SegmentStats counts the objects that Segments has saved, lost and loaded.
type SegmentStats struct {
	Saved   int64 // objects that were saved
	Bytes   int64 // bytes of these objects
	Lost    int64 // objects and states that could not be saved
	Loaded  int64 // objects that were read
	Waiting int64 // bytes that wait to be saved
}

// OpenRedisSegments returns Segments that are stored in Redis. expiry is how long an object or
// playlist state is stored. The caller must call Close.
func OpenRedisSegments(cfg RedisConfig, expiry time.Duration, log *slog.Logger) (*Segments,
	error) {
	s, err := openRedisStore(cfg, expiry)
	if err != nil {
		return nil, err
	}
	return newSegments(s, log), nil
}

func newSegments(s store, log *slog.Logger) *Segments {
	k := &Segments{store: s, log: lock.Logger(log), seed: maphash.MakeSeed(),
		newest: make(map[string]*savedState)}
	k.ctx, k.stop = context.WithCancel(context.Background())
	for i := range k.queues {
		k.queues[i] = make(chan saveJob, saverQueue)
		k.saving.Go(func() {
			for job := range k.queues[i] {
				k.save(&job)
			}
		})
	}
	return k
}

// Close waits until all queued segments are saved. If ctx ends first, the remaining segments are
// lost. Segments that are passed to Save after Close are lost as well.
func (k *Segments) Close(ctx context.Context) error {
	k.mu.Lock()
	k.closed = true
	for _, q := range k.queues {
		close(q)
	}
	k.mu.Unlock()
	defer k.stop()
	defer context.AfterFunc(ctx, k.stop)()
	k.saving.Wait()
	return k.store.close()
}

// Stats returns a snapshot of the counters.
func (k *Segments) Stats() SegmentStats {
	return SegmentStats{Saved: k.saved.Load(), Bytes: k.bytes.Load(), Lost: k.lost.Load(),
		Loaded:  k.loaded.Load(),
		Waiting: k.waiting.Load()}
}

// Save stores an init segment or a segment in the background. It takes ownership of body.
func (k *Segments) Save(stream string, o hls.Object, body *millrace.Chain) {
	job := saveJob{stream: stream, object: o.String()}
	job.body.Merge(body)
	k.put(job)
}

// SaveState stores the state of a stream's playlist in the background.
func (k *Segments) SaveState(stream string, epoch uint64, state []byte) {
	k.put(saveJob{stream: stream, state: &savedState{epoch, state}})
}

func (j *saveJob) size() int64 {
	if j.state != nil {
		return int64(len(j.state.text))
	}
	return int64(j.body.Len())
}

// put adds a job to the queue of the job's stream, and takes ownership of the job. The job is lost
// if the queue is full, if too many bytes wait in all queues together, or if the queues are closed.
func (k *Segments) put(job saveJob) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := job.size()
	if !k.closed && k.waiting.Add(n) <= saverBytes {
		select {
		case k.queues[maphash.String(k.seed, job.stream)%savers] <- job:
			if job.state != nil {
				k.newest[job.stream] = job.state
			}
			return
		default:
		}
	}
	if !k.closed {
		k.waiting.Add(-n)
	}
	k.lost.Add(1)
	job.body.Release()
}

// isNewest reports whether the playlist state in job is the newest state of its stream. If so,
// isNewest removes the state from k.newest.
func (k *Segments) isNewest(job *saveJob) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	newest := k.newest[job.stream] == job.state
	if newest {
		delete(k.newest, job.stream)
	}
	return newest
}

// save stores the object or playlist state that job holds, and releases job. It does not store a
// state that is no longer the newest.
func (k *Segments) save(job *saveJob) {
	if job.state != nil && !k.isNewest(job) {
		k.waiting.Add(-job.size())
		return
	}
	ctx, cancel := context.WithTimeout(k.ctx, saveWait)
	defer cancel()
	n := job.size()
	err := k.ctx.Err()
	switch {
	case err != nil:
	case job.state != nil:
		err = k.store.setState(ctx, job.stream, job.state.epoch, job.state.text)
	default:
		err = k.store.set(ctx, job.stream, job.object, &job.body)
	}
	job.body.Release()
	k.waiting.Add(-n)
	switch {
	case err != nil:
		k.lost.Add(1)
	case job.state == nil:
		k.saved.Add(1)
		k.bytes.Add(n)
	}
	switch news := k.outage.Note(err); {
	case news && err != nil:
		k.log.Warn("segments of HLS are not kept (--segments)", "stream", job.stream, "reason", err)
	case news:
		k.log.Info("segments of HLS are kept again")
	}
}

// LoadState returns the last saved playlist state of a stream, or nil if there is none.
func (k *Segments) LoadState(ctx context.Context, stream string) ([]byte, error) {
	return k.store.state(ctx, stream)
}

// Load appends the bytes of an object to dst, and reports whether the object exists. If the object
// is longer than limit bytes, Load returns an error. The caller keeps ownership of dst.
func (k *Segments) Load(ctx context.Context, stream string, o hls.Object, dst *millrace.Chain,
	limit int) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, saveWait)
	defer cancel()
	found, err := k.store.get(ctx, stream, o.String(), dst, limit)
	if found {
		k.loaded.Add(1)
	}
	return found, err
}
