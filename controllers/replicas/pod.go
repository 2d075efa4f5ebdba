// Copyright The Lighterage Authors.
// SPDX-License-Identifier: Apache-2.0

package replicas

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// Spread asks for replicas on different nodes, and rather has two beside each other than one too few. Those that differ
// in matchLabelKeys do not count. Zones are Apart's: a constraint on them would have the scheduler leave out of account
// all nodes that are in none.
func Spread(selector map[string]string, matchLabelKeys ...string) []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
		LabelSelector:  &metav1.LabelSelector{MatchLabels: selector},
		MatchLabelKeys: matchLabelKeys,
	}}
}

// Apart returns an affinity, which may be nil and is left as it is, with the wish for different nodes, and for
// different zones where there are any. Together with Spread it counts for more than a preferred node: of two nodes the
// one without a replica is taken although the other has an accelerator, because what is all on one node ends with it.
func Apart(affinity *corev1.Affinity, selector map[string]string, matchLabelKeys ...string) *corev1.Affinity {
	apart := &corev1.Affinity{}
	if affinity != nil {
		apart = affinity.DeepCopy()
	}
	from := func(key string, weight int32) corev1.WeightedPodAffinityTerm {
		return corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: corev1.PodAffinityTerm{
			TopologyKey: key, LabelSelector: &metav1.LabelSelector{MatchLabels: selector}, MatchLabelKeys: matchLabelKeys,
		}}
	}
	apart.PodAntiAffinity = &corev1.PodAntiAffinity{
		PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
			from(corev1.LabelHostname, 100), from(corev1.LabelTopologyZone, 100),
		},
	}
	return apart
}

// Probe asks for a path by plain HTTP, every period seconds.
func Probe(path string, port, period, failures int32) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(port), Scheme: corev1.URISchemeHTTP,
		}},
		PeriodSeconds: period, TimeoutSeconds: 2, SuccessThreshold: 1, FailureThreshold: failures,
	}
}

// SecretVolume mounts a Secret that has to be there, which is the one that the manager writes.
func SecretVolume(name, secret string) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{
		SecretName: secret, DefaultMode: ptr.To[int32](0o440),
	}}}
}

// OptionalSecretVolume mounts a Secret of the user's. It may be missing: an agent that runs can say so, and goes on
// when the kubelet brings it. Without keys all of them are mounted.
func OptionalSecretVolume(name, secret string, keys ...string) corev1.Volume {
	volume := SecretVolume(name, secret)
	volume.Secret.Optional = ptr.To(true)
	for _, key := range keys {
		volume.Secret.Items = append(volume.Secret.Items, corev1.KeyToPath{Key: key, Path: key})
	}
	return volume
}
