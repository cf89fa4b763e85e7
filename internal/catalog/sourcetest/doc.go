// Package sourcetest runs servers of addon repositories for tests: git over HTTPS and ssh, and S3.
// They need the program git.
package sourcetest
