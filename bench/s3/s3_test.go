package s3

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/minio/minio-go/v7"
	miniocredentials "github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/millrace-io/millrace"
	"github.com/millrace-io/millrace/bench/measure/benchtest"
)

func TestMain(m *testing.M) { benchtest.Main(m) }

// A store is an S3 server for single PUTs. It refuses the first attempts of each object after it
// has read a part of the body.
type store struct {
	mu       sync.Mutex
	attempts map[string]int
	objects  map[string][]byte
}

const refusedAttempts = 2

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPut {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	s.mu.Lock()
	s.attempts[r.URL.Path]++
	refused := s.attempts[r.URL.Path] <= refusedAttempts
	s.mu.Unlock()
	if refused {
		if strings.Contains(r.UserAgent(), "MinIO") {
			// minio-go 7.4.1 seeks for the next attempt while net/http may still read for this one,
			// a data race in its own io.SectionReader. A server that reads the whole body hides it.
			io.Copy(io.Discard, r.Body)
		} else {
			io.CopyN(io.Discard, r.Body, 10_000)
		}
		http.Error(w, "<Error><Code>SlowDown</Code></Error>", http.StatusServiceUnavailable)
		return
	}
	p, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	s.mu.Lock()
	s.objects[r.URL.Path] = p
	s.mu.Unlock()
	w.Header().Set("ETag", `"0"`)
}

// TestBodyIsRetried uploads a Body with each client to a server that refuses the first attempts.
// The client seeks in the Body and sends it again. With -race, this finds reads after Close.
func TestBodyIsRetried(t *testing.T) {
	s := &store{attempts: map[string]int{}, objects: map[string][]byte{}}
	server := httptest.NewServer(s)
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	aws3 := awss3.New(awss3.Options{Region: "us-east-1", BaseEndpoint: aws.String(server.URL),
		UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired})
	min, err := minio.New(host, &minio.Options{Region: "us-east-1",
		Creds: miniocredentials.NewStaticV4("a", "b", "")})
	if err != nil {
		t.Fatal(err)
	}
	content := bytes.Repeat([]byte("a part of an upload; "), 20_000)
	for name, put := range map[string]func(ctx context.Context, key string, body *millrace.Body) error{
		"aws-sdk-go-v2": func(ctx context.Context, key string, body *millrace.Body) error {
			_, err := aws3.PutObject(ctx, &awss3.PutObjectInput{Bucket: aws.String("uploads"),
				Key: aws.String(key), Body: body})
			return err
		},
		"minio-go": func(ctx context.Context, key string, body *millrace.Body) error {
			_, err := min.PutObject(ctx, "uploads", key, body, int64(body.Len()), minio.PutObjectOptions{
				DisableMultipart: true, DisableContentSha256: true})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			var uploads sync.WaitGroup
			for i := range 4 {
				uploads.Go(func() {
					var c millrace.Chain
					c.AppendCopy(content)
					body := c.Body()
					c.Release()
					defer body.Close()
					key := fmt.Sprintf("%s-%d", name, i)
					if err := put(t.Context(), key, body); err != nil {
						t.Error(err)
					}
					s.mu.Lock()
					defer s.mu.Unlock()
					if got := s.objects["/uploads/"+key]; !bytes.Equal(got, content) {
						t.Errorf("the server has %d bytes after %d attempts, want %d", len(got),
							s.attempts["/uploads/"+key], len(content))
					}
				})
			}
			uploads.Wait()
		})
	}
}
