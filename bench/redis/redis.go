// Package redis compares ways to move large values in and out of Redis: a raw socket that knows what comes, go-redis,
// rueidis and redisbuf. The server is a process of its own, so that what this process uses is the client's.
//
// Every contender is used as its own documentation says, with one client for all goroutines, and tests check that all of
// them deliver the same bytes.
package redis

import (
	"context"
	"math/rand/v2"
)

// A Task is what a call does.
type Task struct {
	Key  string // of the command line
	What string

	contenders []Contender // ratios are to the first, the raw socket
	ours       []own       // of the contenders, those that WriteRivals has a row of
	rivals     []string    // of the contenders, those that it has columns of
}

// Tasks are all of them.
var Tasks = []Task{
	{Key: "get", What: "GET into memory", contenders: []Contender{
		{"raw socket: one Write, io.ReadFull", openRawGet},
		{"go-redis Get().Bytes", openGoRedisGet},
		{"go-redis GetToBuffer", openGoRedisGetToBuffer},
		{"rueidis AsBytes", openRueidisGet},
		{"rueidis DoStream to io.Discard", openRueidisStream},
		{"redisbuf GetToBuffer", openGetToBuffer},
		{"redisbuf GetToBuffer, without Pieces", openGetToBufferWhole},
		{"redisbuf GetChain, released", openGetChain},
		{"redisbuf GetChain, without Pieces", openGetChainWhole},
	}, ours: []own{
		{name: "GetToBuffer", key: "redisbuf GetToBuffer, without Pieces"},
		{name: "GetToBuffer with Pieces(512 << 10)", key: "redisbuf GetToBuffer", from: 2 * piece},
	}, rivals: []string{"go-redis Get().Bytes", "go-redis GetToBuffer", "rueidis AsBytes"}},
	{Key: "set", What: "SET from memory", contenders: []Contender{
		{"raw socket: net.Buffers", openRawSet},
		{"go-redis Set", openGoRedisSet},
		{"go-redis SetFromBuffer", openGoRedisSetFromBuffer},
		{"rueidis SET, BinaryString", openRueidisSet},
		{"redisbuf SetFromBuffer", openSetFromBuffer},
		{"redisbuf SetChain", openSetChain},
	}, ours: []own{
		{name: "SetFromBuffer", key: "redisbuf SetFromBuffer"},
	}, rivals: []string{"go-redis Set", "go-redis SetFromBuffer", "rueidis SET, BinaryString"}},
	{Key: "to", What: "GET to a TCP connection", contenders: []Contender{
		{"raw socket: header, then io.CopyN (splice)", openRawTo},
		{"go-redis Get().Bytes, Write", openGoRedisGetWrite},
		{"go-redis GetToBuffer, Write", openGoRedisToBufferWrite},
		{"rueidis DoStream to the connection", openRueidisStreamTo},
		{"redisbuf GetTo", openGetTo},
	}},
	{Key: "file", What: "SET from a file", contenders: []Contender{
		{"raw socket: header, then io.CopyN (sendfile)", openRawFile},
		{"os.ReadFile, go-redis Set", openGoRedisFile},
		{"redisbuf SetFile", openSetFile},
	}},
}

// A Contender is a way to do a task.
type Contender struct {
	Name string

	open func(context.Context, *Site) (client, error)
}

// A client is a contender at work, for any number of goroutines.
type client interface {
	// worker returns what one goroutine calls again and again. The function gives its value to the site's audit, if it
	// has one, and else to nobody.
	worker(i int) (func(context.Context) error, error)

	// close ends all connections.
	close()
}

// A Site is what all contenders find.
type Site struct {
	Network string `json:"network"` // of the server: tcp or unix
	Addr    string `json:"addr"`
	Size    int    `json:"size"` // of every value
	Sink    string `json:"sink"` // address of what discards, for values that go to a connection
	File    string `json:"file"` // with the value, for values that come from one

	audit func(piece []byte) // of a test: each value that was read, piece by piece
}

// key is what all of them read.
const key = "bench:value"

// setKey is what they set.
const setKey = "bench:set"

// value is what is read and set: random bytes, the same ones each time.
func (s *Site) value() []byte {
	p := make([]byte, s.Size)
	rand.NewChaCha8([32]byte{}).Read(p)
	return p
}

// saw gives what was read to a test.
func (s *Site) saw(piece []byte) {
	if s.audit != nil {
		s.audit(piece)
	}
}

// auditor is a Writer for what nobody wants but a test.
type auditor struct{ s *Site }

func (a auditor) Write(p []byte) (int, error) {
	a.s.saw(p)
	return len(p), nil
}
