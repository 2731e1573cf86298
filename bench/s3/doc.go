// Package s3 tests a millrace.Body as the body of uploads by aws-sdk-go-v2 and minio-go.
package s3
