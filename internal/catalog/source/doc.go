// Package source fetches the index and the addons of addon repositories.
//
// # Addresses
//
// [Render] makes an [Address] from the repository URL in a configuration and the values of a Secret. The URL can have
// query parameters, and placeholders such as {token}. It has one of these forms:
//
//	https://host/path/index.yaml
//	git::https://host/repository.git//path/index.yaml?ref=v1
//	git::ssh://git@host/repository.git//path/index.yaml?sshkey={key}
//	git::git@host:owner/repository.git//path/index.yaml?sshkey={key}
//	github.com/owner/repository//path/index.yaml (also gitlab.com, bitbucket.org)
//	hg::https://host/repository//path/index.yaml?rev=v1
//	s3::https://host/bucket/prefix//path/index.yaml?aws_access_key_id={id}&aws_access_key_secret={key}
//
// In an HTTP repository, addons are archives beside the index. In a local directory, addons are archives or directories
// beside the index. In all other repositories, addons are directories beside the index. This package packs each
// directory into an archive. Develop mode also allows the schemes http and file, with or without git:: and hg::, and
// the scheme http with s3::.
//
// # Protection
//
// Addresses and the responses of servers are treated as hostile. [Limits] limit the sizes, the counts and the times.
// The number of requests is limited for each host, so that a host that does not respond does not delay other hosts.
// Errors never contain values of a Secret, or users and queries of URLs. No credentials of the operator are used:
// neither those of its environment or cloud, nor ssh agents or files of git. Redirects must lead to https, or in
// develop mode to https or http. Credentials are sent only to the first host.
//
// The key of an ssh server must be in the file [Options.KnownHosts]. The keys of github.com, gitlab.com and
// bitbucket.org are also in this package. A server with an unknown key is rejected.
//
// # Libraries
//
// For git, this package uses those packages of go-git that parse packets and packfiles. It sends the requests itself,
// over HTTP or with golang.org/x/crypto/ssh. It does not use the program git (except for git::file:// in develop
// mode), go-getter or the other packages of go-git: they write a working tree, read configuration from their
// environment, and limit neither bytes nor memory. The program git and its ssh client would also add 20 MB to the
// image. Requests to S3 are few and simple, so only their signatures come from a library, minio-go. To fetch an hg
// repository, this package runs the program hg, which must be installed.
package source
