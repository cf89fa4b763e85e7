// Package sourcetest runs servers of addon repositories for tests: git over HTTPS, git over ssh, and S3. The git
// servers need the program git.
package sourcetest
