// The definitions of the kinds of Gateway API, which tests install; they are files of the module.
module github.com/lighterage/lighterage/hack/tools/gateway-api

go 1.26.0

require sigs.k8s.io/gateway-api v1.6.3
