// Package source fetches addon repositories: the index, and the addons in it.
//
// # Addresses
//
// [Render] makes an [Address] from the URL of a configuration and the values of a Secret. A URL has one of these
// forms. It can have query parameters, and placeholders such as {token}:
//
//	https://host/path/index.yaml
//	git::https://host/repository.git//path/index.yaml?ref=v1
//	git::ssh://git@host/repository.git//path/index.yaml?sshkey={key}
//	git::git@host:owner/repository.git//path/index.yaml?sshkey={key}
//	github.com/owner/repository//path/index.yaml (also gitlab.com, bitbucket.org)
//	hg::https://host/repository//path/index.yaml?rev=v1
//	s3::https://host/bucket/prefix//path/index.yaml?aws_access_key_id={id}&aws_access_key_secret={key}
//
// The addons of an HTTP repository are archives beside the index. The addons of the other kinds are directories
// beside the index, of which this package makes archives. Develop mode also allows the schemes http and file, with or
// without git:: and hg::, and the scheme http with s3::.
//
// # Protection
//
// Addresses and answers are treated as hostile. Sizes, counts and times have [Limits]. The number of requests is
// limited for each host, so that a host that does not respond does not delay other hosts. Errors never contain values
// of a Secret, users or queries of URLs. No credentials of the operator are used: neither those of its environment or
// cloud, nor ssh agents or files of git. Redirects must stay on https. Credentials are sent only to the first host.
//
// The key of an ssh server must be in the file [Options.KnownHosts]. The keys of github.com, gitlab.com and
// bitbucket.org are also in this package. A server with an unknown key is rejected.
//
// # Libraries
//
// For git, this package uses only the packages of go-git for packets and packfiles. Requests are sent by the HTTP
// client of this package, or by golang.org/x/crypto/ssh. The program git, go-getter and the other packages of go-git
// are not used: they write a working tree, read configuration from their environment, and limit neither bytes nor
// memory. The program git and its ssh client would also add 20 MB to the image. Requests to S3 are few and simple, so
// only their signatures come from a library, minio-go. A fetch from an hg repository needs the program hg.
package source
