package chunk_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace-io/millrace/chunk"
)

func TestCopyOntoItself(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, someBytes(1000), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	// The first half over the second: the kernel does not copy within one file where ranges meet, an ordinary write does.
	if _, err := f.Seek(500, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	if _, err := chunk.Copy(context.Background(), f, io.NewSectionReader(f, 0, 500)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(name); err != nil || !bytes.Equal(got[500:], someBytes(1000)[:500]) {
		t.Error(err)
	}
}

// A file that is copied to its own end would grow until the disk is full.
func TestCopyToItsOwnEnd(t *testing.T) {
	for _, flags := range []int{0, os.O_APPEND} {
		f := fileOf(t, someBytes(100_000))
		dst, err := os.OpenFile(f.Name(), os.O_WRONLY|flags, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer dst.Close()
		if _, err := dst.Seek(0, io.SeekEnd); err != nil {
			t.Fatal(err)
		}
		report, err := chunk.Copy(context.Background(), dst, f)
		if report.Bytes > 300_000 || report.Bytes > 100_000 && err == nil {
			t.Errorf("%+v, %v", report, err)
		}
	}
}

// Nor does it where each step is full, because the end is further away than a step is long.
func TestCopyToItsFarEnd(t *testing.T) {
	for _, tt := range []struct {
		size int64
		opts []chunk.CopyOption
	}{
		{17 << 20, nil},
		{16 << 20, nil},
		{2 << 20, []chunk.CopyOption{chunk.Progress(func(int64) {})}},
	} {
		f := fileOf(t, nil)
		must(t, os.Truncate(f.Name(), tt.size))
		dst, err := os.OpenFile(f.Name(), os.O_WRONLY, 0)
		must(t, err)
		defer dst.Close()
		_, err = dst.Seek(0, io.SeekEnd)
		must(t, err)
		report, err := chunk.Copy(t.Context(), dst, f, tt.opts...)
		if info, statErr := f.Stat(); err == nil || report.Bytes > 2*tt.size || statErr != nil || info.Size() != tt.size+report.Bytes {
			t.Errorf("%d bytes: %+v, %v", tt.size, report, err)
		}
		// A part that ends is copied, and so is what moves towards the beginning.
		must(t, os.Truncate(f.Name(), tt.size))
		_, err = f.Seek(0, io.SeekStart)
		must(t, err)
		_, err = dst.Seek(0, io.SeekEnd)
		must(t, err)
		if report, err := chunk.Copy(t.Context(), dst, io.LimitReader(f, tt.size), tt.opts...); err != nil || report.Bytes != tt.size {
			t.Errorf("%d bytes of as many: %+v, %v", tt.size, report, err)
		}
		_, err = f.Seek(100, io.SeekStart)
		must(t, err)
		_, err = dst.Seek(0, io.SeekStart)
		must(t, err)
		if report, err := chunk.Copy(t.Context(), dst, f, tt.opts...); err != nil || report.Bytes != 2*tt.size-100 {
			t.Errorf("%d bytes, towards the beginning: %+v, %v", tt.size, report, err)
		}
	}
}

// A file's end moves to its beginning.
func TestCopyWithinAFile(t *testing.T) {
	data := someBytes(200_000)
	f := fileOf(t, data)
	dst, err := os.OpenFile(f.Name(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer dst.Close()
	if _, err := f.Seek(50_000, io.SeekStart); err != nil {
		t.Fatal(err)
	}
	report, err := chunk.Copy(context.Background(), dst, f)
	if err != nil || report.Bytes != 150_000 {
		t.Errorf("%+v, %v", report, err)
	}
	if got, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(got[:150_000], data[50_000:]) {
		t.Error(err)
	}
}
