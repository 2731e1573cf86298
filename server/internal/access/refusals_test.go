package access

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/millrace-io/millrace/internal/testkit/nettest"
	"github.com/millrace-io/millrace/server/internal/refuse"
)

// Clients that reconnect repeatedly do not fill the log, and do not hide others.
func TestRefusalsDoNotFillTheLog(t *testing.T) {
	book := &nettest.LogBook{}
	r := NewRefusals(slog.New(slog.NewTextHandler(book, nil)), new(Origins), false)
	wrong := &refuse.Refusal{Status: http.StatusForbidden, Reason: "wrong token"}
	for range 100 {
		r.Note(Viewer, wrong)
	}
	r.Note(Publisher, errors.New("odd"))
	if n := strings.Count(book.String(), "viewer refused"); n != refusalLines {
		t.Errorf("%d lines, want %d", n, refusalLines)
	}
	if !strings.Contains(book.String(), "publisher refused") {
		t.Error("a publisher's refusal is not logged")
	}
	if n := r.counts[Refused{Viewer, refuse.Forbidden}]; n != 100 {
		t.Errorf("%d are counted", n)
	}
	if n := r.counts[Refused{Publisher, refuse.Other}]; n != 1 {
		t.Errorf("%d others are counted", n)
	}
	r.lines[Viewer].since = time.Now().Add(-refusalPeriod)
	r.Note(Viewer, wrong)
	if !strings.Contains(book.String(), fmt.Sprintf("unlogged=%d", 100-refusalLines)) {
		t.Errorf("the log does not say what is missing:\n%s", book)
	}
}
