package store

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// Without files or blobs, a client is told how to enable them.
func TestNoFilesAndNoBlobs(t *testing.T) {
	var f *Files
	var b *Blobs
	for _, path := range []string{FilesPath + "a", BlobsPath + "a"} {
		w, r := httptest.NewRecorder(), httptest.NewRequest("GET", path, nil)
		says := "--root DIR"
		if strings.HasPrefix(path, FilesPath) {
			f.ServeHTTP(w, r)
		} else {
			b.Serve(w, r, "a")
			says = "--blobs DIR"
		}
		if w.Code != 404 || !strings.Contains(w.Body.String(), says) {
			t.Errorf("%s: %d %s, want 404 that says why", path, w.Code, w.Body)
		}
	}
	f.SetLimit(1)
	b.SetLimits(1, 1)
	if f.Held()+b.Held() != 0 || f.BlockBytes()+b.BlockBytes() != 0 || f.Offer() != "off" {
		t.Error("nothing holds something")
	}
	<-f.Drain()
	<-b.Drain()
	if f.Close() != nil || b.Close() != nil {
		t.Error("nothing cannot be closed")
	}
}
