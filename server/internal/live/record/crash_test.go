package record

import (
	"bytes"
	"testing"

	"github.com/millrace-io/millrace/server/internal/testkit/disktest"
)

// After a crash of the machine, an ended recording has its name and all of its bytes.
func TestEndedRecordingIsOnDisk(t *testing.T) {
	d := disktest.New(memoryDir(t))
	r := newRig(t, func(c *Config) { c.Dir, c.open = d.Dir(), d.Open })
	rec := r.stream("acme/cam")
	r.feed.to(rec, 60)
	rec.Close()
	r.ended()
	whole := d.Crash(d.Len(), 512, nil)
	for i := range 50 {
		s := d.Crash(d.Len(), 512, disktest.Random(i, 0, 0))
		for _, name := range d.Names() {
			if !bytes.Equal(s.File(name), whole.File(name)) {
				t.Fatalf("%d bytes of %s are left, want %d", len(s.File(name)), name,
					len(whole.File(name)))
			}
		}
	}
}
