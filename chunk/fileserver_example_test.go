package chunk_test

import (
	"embed"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/millrace-io/millrace/chunk"
)

func ExampleFileServer() {
	dir, err := os.MkdirTemp("", "files")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.WriteFile(filepath.Join(dir, "hello.txt"), []byte("Hello, World"),
		0o644); err != nil {
		log.Fatal(err)
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer root.Close()
	files := chunk.FileServer(root, chunk.Precompressed())
	server := httptest.NewServer(http.StripPrefix("/files", files))
	defer server.Close()

	req, _ := http.NewRequest("GET", server.URL+"/files/hello.txt", nil)
	req.Header.Set("Range", "bytes=-5")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		log.Fatal(err)
	}
	defer res.Body.Close()
	body, _ := io.ReadAll(res.Body)
	fmt.Println(res.StatusCode, res.Header.Get("Content-Range"), string(body))
	// Output: 206 bytes 7-11/12 World
}

//go:embed *_test.go
var embedded embed.FS

// Embedded files have no modification time. Their ETag lets clients keep them.
func ExampleFileServerFS() {
	server := httptest.NewServer(chunk.FileServerFS(embedded))
	defer server.Close()

	req, _ := http.NewRequest("GET", server.URL+"/main_test.go", nil)
	for range 2 {
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			log.Fatal(err)
		}
		res.Body.Close()
		fmt.Println(res.Status)
		req.Header.Set("If-None-Match", res.Header.Get("ETag"))
	}
	// Output:
	// 200 OK
	// 304 Not Modified
}

// Files are served under names that differ from their file names, and only to some clients.
func ExampleFileHandler_ServeFile() {
	root, remove := rootWith("2026-11.pdf", []byte("Hello, World"))
	defer remove()
	files := chunk.FileServer(root)

	names := map[string]string{"17": "2026-11.pdf"} // or use a database
	mux := http.NewServeMux()
	mux.HandleFunc("GET /invoices/{number}", func(w http.ResponseWriter, r *http.Request) {
		if user, _, _ := r.BasicAuth(); user != "ann" {
			http.Error(w, "this is not for you", http.StatusForbidden)
			return
		}
		files.ServeFile(w, r, names[r.PathValue("number")])
	})
	ask := func(user, number string) {
		r := httptest.NewRequest("GET", "/invoices/"+number, nil)
		r.SetBasicAuth(user, "")
		w := serveTo(mux, r)
		fmt.Println(w.Code, w.Header().Get("Content-Type"), w.Body.Len())
	}
	ask("ann", "17")
	ask("ann", "18")
	ask("bob", "17")
	// Output:
	// 200 application/pdf 12
	// 404 text/plain; charset=utf-8 19
	// 403 text/plain; charset=utf-8 20
}

// OnServed reveals a middleware that hides the connection.
func ExampleOnServed() {
	root, remove := rootWith("a.bin", make([]byte, 1<<20))
	defer remove()

	files := chunk.FileServer(root, chunk.OnServed(func(r *http.Request, sent chunk.Report,
		status int) {
		fmt.Println(r.URL.Path, status, sent.FastPath())
	}))
	type hidden struct{ http.ResponseWriter } // lacks Unwrap
	files.ServeHTTP(hidden{httptest.NewRecorder()}, httptest.NewRequest("GET", "/a.bin", nil))
	// Output: /a.bin 200 chunk: 1048576 of 1048576 bytes were copied through memory
}

// rootWith opens a new directory that contains one file. remove deletes it.
func rootWith(name string, content []byte) (root *os.Root, remove func()) {
	dir, err := os.MkdirTemp("", "files")
	if err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
		log.Fatal(err)
	}
	if root, err = os.OpenRoot(dir); err != nil {
		log.Fatal(err)
	}
	return root, func() {
		_ = root.Close()
		_ = os.RemoveAll(dir)
	}
}
