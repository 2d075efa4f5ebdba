#!/usr/bin/env bash
# Copyright The Lighterage Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Installs Lighterage by Helm into the clusters east and west and joins them as peers. Can be run again: it upgrades.
#   REGISTRY              where the images are (from .cluster/env; make images pushes there)
#   VERSION               their tag (make passes it)
#   CHART                 directory of the chart (default: that of this tree), or oci://REPOSITORY@DIGEST
#   CHART_PLAIN_HTTP      not empty: the registry of the chart speaks http
#   CLUSTERS              which of the clusters (default: east west)
#   GATEWAY_SERVICE_TYPE  how the other cluster gets in: LoadBalancer (default, clusters of your own) or NodePort
#   ACCELERATOR_SLOTS     how many agents may share the accelerator of a node (default 0: any number)
#   EAST_GATEWAY_ENDPOINT, WEST_GATEWAY_ENDPOINT  host:port, when it is neither of the two

# shellcheck source=hack/demo/lib.sh
. "$(dirname "$0")/lib.sh"
VERSION=${VERSION:?make sets VERSION to the tag of the images}

# Local clusters, and others without a load balancer, expose the gateway on a port of every node.
if [ "$MODE" = local ]; then GATEWAY_SERVICE_TYPE=NodePort; fi
GATEWAY_SERVICE_TYPE=${GATEWAY_SERVICE_TYPE:-LoadBalancer}
gateway_values=(--set gateway.service.type="$GATEWAY_SERVICE_TYPE")
if [ "$GATEWAY_SERVICE_TYPE" = NodePort ]; then gateway_values+=(--set gateway.service.nodePort="$GATEWAY_NODE_PORT"); fi

# gateway_endpoint CLUSTER prints the host and port under which the other cluster reaches its gateway.
gateway_endpoint() {
  local cluster=$1 override=${1^^}_GATEWAY_ENDPOINT
  if [ -n "${!override:-}" ]; then echo "${!override}"; return; fi
  if [ "$GATEWAY_SERVICE_TYPE" = NodePort ]; then
    override=$("$cluster" get nodes -o jsonpath='{.items[0].status.addresses[?(@.type=="InternalIP")].address}')
    echo "${override%% *}:$GATEWAY_NODE_PORT"
    return
  fi
  local host
  host=$(ingress "$cluster" ip)
  if [ -z "$host" ]; then host=$(ingress "$cluster" hostname); fi
  case $host in
  '') return 1 ;;
  *:*) echo "[$host]:8443" ;;
  *) echo "$host:8443" ;;
  esac
}

ingress() { # CLUSTER FIELD
  "$1" -n "$NAMESPACE" get service lighterage-gateway -o jsonpath="{.status.loadBalancer.ingress[0].$2}"
}

# pods_wait CLUSTER says what Helm waits for.
pods_wait() {
  local each='Waiting: {.metadata.name} of '"$1"' has {.status.readyReplicas}{.status.numberReady} ready{"\n"}'
  "$1" -n "$NAMESPACE" get deployments,daemonsets -o "jsonpath={range .items[*]}$each{end}" 2>/dev/null
}
# Charts of earlier releases do not have this value.
if grep -qs '^pointInTime:' "${CHART:-charts/lighterage}/values.yaml"; then
  gateway_values+=(--set pointInTime.enabled=true)
fi
if grep -qs '^hooks:' "${CHART:-charts/lighterage}/values.yaml"; then
  gateway_values+=(--set hooks.enabled=true)
fi
if grep -qs '^populator:' "${CHART:-charts/lighterage}/values.yaml"; then
  gateway_values+=(--set populator.enabled=true)
fi
if grep -qs '^pulls:' "${CHART:-charts/lighterage}/values.yaml"; then
  gateway_values+=(--set pulls.enabled=true)
fi
if grep -qs '^claimTemplates:' "${CHART:-charts/lighterage}/values.yaml"; then
  gateway_values+=(--set claimTemplates.enabled=true)
fi

# install CLUSTER
install() {
  local cluster=$1
  say "Installing Lighterage $VERSION in cluster $cluster"
  "$cluster" create namespace "$NAMESPACE" --dry-run=client -o yaml |
    "$cluster" label --local -f - pod-security.kubernetes.io/enforce=restricted -o yaml |
    "$cluster" apply -f - >/dev/null
  meanwhile 10 pods_wait "$cluster"
  show helm upgrade --install lighterage "${CHART:-charts/lighterage}" --kubeconfig ".cluster/$cluster.kubeconfig" --namespace "$NAMESPACE" \
    --set clusterName="$cluster" --set image.registry="$REGISTRY" --set image.tag="$VERSION" \
    --set manager.replicas="${REPLICAS:-1}" --set gateway.replicas="${REPLICAS:-1}" \
    --set accelerator.slotsPerNode="${ACCELERATOR_SLOTS:-0}" "${gateway_values[@]}" ${CHART_PLAIN_HTTP:+--plain-http} --wait --timeout 10m >/dev/null || {
    stop_meanwhile
    return 1
  }
  stop_meanwhile
  "$cluster" -n "$NAMESPACE" get pods -o wide
}

# Two that start at once would both build Helm.
say "Building Helm, once"
building() { echo "Building Helm"; }
meanwhile 30 building
helm version --short >/dev/null
stop_meanwhile
installing=()
for cluster in ${CLUSTERS:-east west}; do
  install "$cluster" &
  installing+=($!)
done
await "${installing[@]}"

# join CLUSTER OTHER: makes the Peer OTHER in CLUSTER, from what OTHER publishes.
join() {
  local cluster=$1 other=$2 endpoint ca
  wait_until 300 "the address of the gateway of $other (set ${other^^}_GATEWAY_ENDPOINT=host:port if it has none)" gateway_endpoint "$other"
  endpoint=$(gateway_endpoint "$other")
  wait_until 300 "the CA of cluster $other" "$other" -n "$NAMESPACE" get configmap lighterage-ca
  ca=$("$other" -n "$NAMESPACE" get configmap lighterage-ca -o 'jsonpath={.data.ca\.crt}' | base64 -w0)
  "$cluster" apply -f - <<YAML
apiVersion: lighterage.dev/v1alpha1
kind: Peer
metadata:
  name: $other
spec:
  endpoint: "$endpoint"
  caBundle: $ca
YAML
}

say "Joining the clusters: each learns the other's address and CA, public material only"
join east west
join west east
# ready CLUSTER PEER: the peer answers and trusts us.
ready() {
  wait_until 300 "peer $2 of cluster $1 to be Ready" "$1" wait "peer/$2" --for=condition=Ready --timeout=2s
  show "$1" get "peer/$2"
}
ready east west
ready west east
