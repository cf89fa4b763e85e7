// Package source fetches addon repositories: the index, and the addons in it.
//
// # Addresses
//
// [Render] makes an [Address] from the URL of a configuration and the values of a Secret. A URL has
// one of these forms; ?parameters may be placeholders such as {token}:
//
//	https://host/path/index.yaml
//	git::https://host/repository.git//path/index.yaml?ref=v1
//	git::ssh://git@host/repository.git//path/index.yaml?sshkey={key}
//	git::git@host:owner/repository.git//path/index.yaml?sshkey={key}
//	github.com/owner/repository//path/index.yaml (also gitlab.com, bitbucket.org)
//	hg::https://host/repository//path/index.yaml?rev=v1
//	s3::https://host/bucket/prefix//path/index.yaml?aws_access_key_id={id}&aws_access_key_secret={key}
//
// Files of an HTTP repository are archives beside the index; those of the other kinds are directories
// beside it, which this package turns into archives. In develop mode, http and file are allowed as
// well, alone and behind git:: and hg::, and http behind s3::.
//
// # Protection
//
// Addresses and answers are treated as hostile. Sizes, counts and times have limits ([Limits]); the
// number of requests is bounded for each host, so that one that does not respond delays no other.
// Errors never contain values of a Secret, users or queries of URLs. No credentials of the operator
// are used: neither those of its environment or cloud, nor ssh agents or files of git. Redirects stay
// on https and carry credentials to the same host only.
//
// The key of an ssh server must be known: from the file of [Options.KnownHosts], or, for github.com,
// gitlab.com and bitbucket.org, from this package. An unknown key is refused, never accepted.
//
// # Libraries
//
// Git is read with the packages of go-git for its packets and packfiles, on top of the HTTP client
// of this package and of golang.org/x/crypto/ssh. The program git, go-getter and the whole of go-git
// write a working tree, take configuration from their environment and bound neither bytes nor
// memory; the program and its ssh client would add 20 MB to the image besides. Requests to S3 are
// few and simple, so only their signatures come from a library, minio-go. Fetching from hg needs
// the program hg; without it, such a repository fails.
package source
