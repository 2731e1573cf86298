package server

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
)

func TestNetworkOfAnAddress(t *testing.T) {
	for address, want := range map[string]string{
		"0.0.0.0:8080": "tcp4", "127.0.0.1:0": "tcp4", ":8080": "tcp", "[::]:8080": "tcp",
		"[::1]:8080":     "tcp",
		"localhost:8080": "tcp", "[::ffff:127.0.0.1]:1": "tcp",
	} {
		if got := network(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	cfg := Defaults()
	cfg.Listen, cfg.RTMP = "0.0.0.0:0", "0.0.0.0:0"
	l, err := openListeners(&cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	for _, ln := range []net.Listener{l.Main, l.RTMP} {
		if ip := ln.Addr().(*net.TCPAddr).IP; ip.To4() == nil {
			t.Errorf("it listens at %v", ip)
		}
	}
}

func TestListensAt(t *testing.T) {
	at := func(ip string, port int) net.Addr {
		return &net.TCPAddr{IP: net.ParseIP(ip), Port: port}
	}
	for _, tt := range []struct {
		at      net.Addr
		address string
		want    bool
	}{
		{at("127.0.0.1", 8080), "127.0.0.1:8080", true},
		{at("127.0.0.1", 8080), "127.0.0.1:8081", false},
		{at("127.0.0.1", 8080), "0.0.0.0:8080", false}, {at("::", 8080), ":8080", true},
		{at("0.0.0.0", 8080), ":8080", true},
		{at("127.0.0.1", 8080), ":8080", false}, {at("127.0.0.1", 8080), "localhost:8080", true},
		{at("::", 8080), "localhost:8080", false}, {at("127.0.0.1", 80), "127.0.0.1:http", true},
		{at("127.0.0.1", 4711), "127.0.0.1:0", true}, {at("127.0.0.1", 1935), "", false},
		{at("::", 8080), "[::]:8080", true}, {at("10.0.0.1", 8080), "example.org:8080", true},
	} {
		if got := listensAt(tt.at, tt.address); got != tt.want {
			t.Errorf("listensAt(%v, %q) = %t, want %t", tt.at, tt.address, got, tt.want)
		}
	}
}

// A process that replaces another one logs the addresses that it does not take over.
func TestASuccessorSaysWhatHasChanged(t *testing.T) {
	for _, successor := range []bool{true, false} {
		book := &logBook{}
		cfg := Defaults()
		cfg.Listen, cfg.RTMP, cfg.Successor = "127.0.0.1:1", "", successor
		cfg.Log = slog.New(slog.NewTextHandler(book, nil))
		s, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx, map[string]net.Listener{"main": listen(t)}); err != nil {
			t.Fatal(err)
		}
		if got := strings.Count(book.String(), "the address has changed"); (got == 1) != successor {
			t.Errorf("successor %t: %d warnings:\n%s", successor, got, book)
		}
	}
}
