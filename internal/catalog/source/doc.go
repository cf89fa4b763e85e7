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
//	s3::https://host/bucket/prefix//path/index.yaml?aws_access_key_id={id}&aws_access_key_secret={key}
//	hg::https://host/repository//path/index.yaml?rev=v1
//
// In develop mode, http and file are allowed as well, alone and behind git:: and hg::, and http
// behind s3::.
package source
