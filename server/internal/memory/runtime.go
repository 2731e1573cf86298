package memory

import "runtime/metrics"

type runtimeStats struct {
	samples [10]metrics.Sample

	cycles    uint64 // completed garbage collections
	live      int64  // heap memory in use after the last collection
	objects   int64  // heap memory including garbage
	overhead  int64  // stacks, and the runtime's own memory
	mapped    int64  // all memory obtained from the system
	allocated int64  // bytes allocated since the start
}

func newRuntimeStats() (r runtimeStats) {
	for i, name := range []string{
		"/gc/cycles/total:gc-cycles", "/gc/heap/live:bytes", "/memory/classes/heap/objects:bytes",
		"/memory/classes/total:bytes", "/memory/classes/heap/released:bytes",
		"/gc/heap/allocs:bytes",
		"/memory/classes/heap/stacks:bytes", "/memory/classes/metadata/mspan/inuse:bytes",
		"/memory/classes/metadata/other:bytes", "/memory/classes/other:bytes",
	} {
		r.samples[i].Name = name
	}
	return r
}

func (r *runtimeStats) read() {
	metrics.Read(r.samples[:])
	var v [len(r.samples)]int64
	for i := range v {
		v[i] = int64(r.samples[i].Value.Uint64())
	}
	r.cycles, r.live, r.objects = uint64(v[0]), v[1], v[2]
	r.mapped, r.allocated = v[3]-v[4], v[5]
	r.overhead = v[6] + v[7] + v[8] + v[9]
}
