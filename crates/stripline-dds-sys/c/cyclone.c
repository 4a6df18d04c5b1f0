/* For `dladdr`. */
#define _GNU_SOURCE
#include "cyclone.h"

#include "Stripline.h"
#include "dds/dds.h"
#include "dds/ddsi/ddsi_serdata.h"
#include "dds/ddsrt/log.h"
#include "dds/version.h"

#include <dlfcn.h>
#include <string.h>

static const dds_topic_descriptor_t *const descriptors[STRIPLINE_DDS_TYPES] = {
  [STRIPLINE_DDS_FRAMES] = &stripline_Frames_desc,
  [STRIPLINE_DDS_FLOAT] = &stripline_FloatSamples_desc,
  [STRIPLINE_DDS_COMPLEX_FLOAT] = &stripline_ComplexFloatSamples_desc,
  [STRIPLINE_DDS_SHORT] = &stripline_ShortSamples_desc,
  [STRIPLINE_DDS_COMPLEX_SHORT] = &stripline_ComplexShortSamples_desc,
  [STRIPLINE_DDS_OCTET] = &stripline_OctetSamples_desc,
};

/* Samples of all types are written as this type. */
_Static_assert(sizeof(stripline_FloatSamples) == sizeof(stripline_OctetSamples), "one layout");
_Static_assert(sizeof(stripline_ShortSamples) == sizeof(stripline_OctetSamples), "one layout");
_Static_assert(offsetof(stripline_FloatSamples, samples) == offsetof(stripline_OctetSamples, samples),
               "one layout");
_Static_assert(sizeof(dds_sequence_float) == sizeof(dds_sequence_octet), "one layout");

const char *stripline_dds_version(void) { return DDS_VERSION; }

const char *stripline_dds_message(int32_t code) { return dds_strretcode(code); }

static stripline_dds_log current_log;

static void write_log(void *argument, const dds_log_data_t *data) {
  (void)argument;
  uint32_t priority = (data->priority & (DDS_LC_FATAL | DDS_LC_ERROR)) ? 1 : 3;
  if (data->priority & DDS_LC_WARNING)
    priority = 2;
  size_t length = data->size;
  while (length > 0 && (data->message[length - 1] == '\0' || data->message[length - 1] == '\n'))
    length--;
  current_log(priority, data->message, length);
}

void stripline_dds_set_log(stripline_dds_log log) {
  current_log = log;
  dds_set_log_sink(write_log, NULL);
}

const char *stripline_dds_library(void) {
  static Dl_info library;
  return dladdr((void *)(uintptr_t)&dds_create_domain, &library) ? library.dli_fname : NULL;
}

int32_t stripline_dds_open(uint32_t domain, const char *configuration, const char *const (*properties)[2],
                           int32_t *domain_out, int32_t *participant_out) {
  dds_entity_t made = dds_create_domain(domain, configuration);
  if (made < 0)
    return made;
  dds_qos_t *qos = dds_create_qos();
  for (; properties && (*properties)[0]; properties++)
    dds_qset_prop(qos, (*properties)[0], (*properties)[1]);
  dds_entity_t participant = dds_create_participant(domain, qos, NULL);
  dds_delete_qos(qos);
  if (participant < 0) {
    (void)dds_delete(made);
    return participant;
  }
  *domain_out = made;
  *participant_out = participant;
  return 0;
}

static dds_qos_t *qos_of(const struct stripline_dds_terms *terms, int is_reader) {
  dds_qos_t *qos = dds_create_qos();
  if (terms->is_reliable)
    dds_qset_reliability(qos, DDS_RELIABILITY_RELIABLE, terms->write_ns > 0 ? terms->write_ns : DDS_INFINITY);
  else
    dds_qset_reliability(qos, DDS_RELIABILITY_BEST_EFFORT, 0);
  if (terms->is_transient_local) {
    int32_t depth = terms->depth > 0 ? (int32_t)terms->depth : DDS_LENGTH_UNLIMITED;
    dds_history_kind_t kind = terms->depth > 0 ? DDS_HISTORY_KEEP_LAST : DDS_HISTORY_KEEP_ALL;
    dds_qset_durability(qos, DDS_DURABILITY_TRANSIENT_LOCAL);
    dds_qset_durability_service(qos, 0, kind, depth, DDS_LENGTH_UNLIMITED, DDS_LENGTH_UNLIMITED,
                                DDS_LENGTH_UNLIMITED);
  } else {
    dds_qset_durability(qos, DDS_DURABILITY_VOLATILE);
  }
  if (is_reader && terms->depth > 0 && !terms->is_reliable) {
    dds_qset_history(qos, DDS_HISTORY_KEEP_LAST, (int32_t)terms->depth);
  } else {
    dds_qset_history(qos, DDS_HISTORY_KEEP_ALL, 0);
    if (is_reader && terms->depth > 0)
      dds_qset_resource_limits(qos, (int32_t)terms->depth, DDS_LENGTH_UNLIMITED, (int32_t)terms->depth);
  }
  if (terms->deadline_ns > 0)
    dds_qset_deadline(qos, terms->deadline_ns);
  dds_qset_writer_data_lifecycle(qos, false);
  return qos;
}

static void on_publication_matched(dds_entity_t writer, const dds_publication_matched_status_t status,
                                   void *argument) {
  (void)status;
  const struct stripline_dds_events *events = argument;
  events->matched(events->context, writer);
}

static void on_subscription_matched(dds_entity_t reader, const dds_subscription_matched_status_t status,
                                    void *argument) {
  (void)status;
  const struct stripline_dds_events *events = argument;
  events->matched(events->context, reader);
}

static void on_data_available(dds_entity_t reader, void *argument) {
  const struct stripline_dds_events *events = argument;
  events->arrived(events->context, reader);
}

static int32_t create(int32_t participant, uint32_t type, const char *topic,
                      const struct stripline_dds_terms *terms,
                      const struct stripline_dds_events *events, int is_reader,
                      struct stripline_dds_end *end) {
  if (type >= STRIPLINE_DDS_TYPES)
    return DDS_RETCODE_BAD_PARAMETER;
  dds_qos_t *qos = qos_of(terms, is_reader);
  dds_listener_t *listener = dds_create_listener((void *)events);
  if (events == NULL) {
    /* The reader is polled. */
  } else if (is_reader) {
    dds_lset_subscription_matched(listener, on_subscription_matched);
    dds_lset_data_available(listener, on_data_available);
  } else {
    dds_lset_publication_matched(listener, on_publication_matched);
  }
  dds_entity_t made = dds_create_topic(participant, descriptors[type], topic, NULL, NULL);
  if (made >= 0) {
    end->topic = made;
    made = is_reader ? dds_create_reader(participant, end->topic, qos, listener)
                     : dds_create_writer(participant, end->topic, qos, listener);
    if (made < 0)
      (void)dds_delete(end->topic);
    else
      end->end = made;
  }
  dds_delete_listener(listener);
  dds_delete_qos(qos);
  return made < 0 ? made : 0;
}

int32_t stripline_dds_create_writer(int32_t participant, uint32_t type, const char *topic,
                                    const struct stripline_dds_terms *terms,
                                    const struct stripline_dds_events *events,
                                    struct stripline_dds_end *end) {
  return create(participant, type, topic, terms, events, 0, end);
}

int32_t stripline_dds_create_reader(int32_t participant, uint32_t type, const char *topic,
                                    const struct stripline_dds_terms *terms,
                                    const struct stripline_dds_events *events,
                                    struct stripline_dds_end *end) {
  return create(participant, type, topic, terms, events, 1, end);
}

int32_t stripline_dds_create_polled_reader(int32_t participant, uint32_t type, const char *topic,
                                           const struct stripline_dds_terms *terms,
                                           struct stripline_dds_end *end) {
  return create(participant, type, topic, terms, NULL, 1, end);
}

int32_t stripline_dds_create_wait_set(int32_t participant, int32_t reader) {
  dds_return_t outcome = dds_set_status_mask(reader, DDS_DATA_AVAILABLE_STATUS);
  if (outcome < 0)
    return outcome;
  dds_entity_t made = dds_create_waitset(participant);
  if (made < 0)
    return made;
  outcome = dds_waitset_attach(made, reader, 0);
  return outcome < 0 ? outcome : made;
}

int32_t stripline_dds_wait(int32_t wait_set) {
  dds_attach_t ready;
  return dds_waitset_wait(wait_set, &ready, 1, DDS_INFINITY);
}

int32_t stripline_dds_delete(int32_t entity) { return dds_delete(entity); }

int32_t stripline_dds_guid(int32_t entity, uint8_t guid[16]) {
  dds_guid_t found;
  dds_return_t outcome = dds_get_guid(entity, &found);
  if (outcome == DDS_RETCODE_OK)
    memcpy(guid, found.v, sizeof found.v);
  return outcome;
}

int32_t stripline_dds_guid_of_publication(int32_t reader, uint64_t publication, uint8_t guid[16]) {
  dds_builtintopic_endpoint_t *found = dds_get_matched_publication_data(reader, publication);
  if (found == NULL)
    return DDS_RETCODE_NOT_FOUND;
  memcpy(guid, found->key.v, sizeof found->key.v);
  dds_builtintopic_free_endpoint(found);
  return DDS_RETCODE_OK;
}

int32_t stripline_dds_matched_readers(int32_t writer) {
  dds_publication_matched_status_t status;
  dds_return_t outcome = dds_get_publication_matched_status(writer, &status);
  return outcome < 0 ? outcome : (int32_t)status.current_count;
}

int32_t stripline_dds_matched_writers(int32_t reader) {
  dds_subscription_matched_status_t status;
  dds_return_t outcome = dds_get_subscription_matched_status(reader, &status);
  return outcome < 0 ? outcome : (int32_t)status.current_count;
}

int32_t stripline_dds_wait_for_acks(int32_t writer, int64_t longest_ns) {
  return dds_wait_for_acks(writer, longest_ns);
}

int32_t stripline_dds_write_frames(int32_t writer, uint64_t key, uint64_t number, const uint8_t *bytes,
                                   uint32_t length) {
  stripline_Frames frames = {
    .key = key,
    .number = number,
    .bytes = { ._maximum = length, ._length = length, ._buffer = (uint8_t *)bytes, ._release = false },
  };
  return dds_write(writer, &frames);
}

int32_t stripline_dds_write_samples(int32_t writer, const struct stripline_dds_info *info,
                                    const void *samples, uint32_t elements) {
  stripline_OctetSamples message = {
    .info = { .sample_index = info->sample_index,
              .time_ns = info->time_ns,
              .rate_hz = info->rate_hz,
              .frequency_hz = info->frequency_hz },
    .samples = { ._maximum = elements,
                 ._length = elements,
                 ._buffer = (uint8_t *)samples,
                 ._release = false },
  };
  return dds_write(writer, &message);
}

int32_t stripline_dds_find_other_type(int32_t participant, uint32_t type, const char *topic,
                                      int32_t of_writers, char *name, size_t length) {
  if (type >= STRIPLINE_DDS_TYPES || length == 0)
    return DDS_RETCODE_BAD_PARAMETER;
  dds_entity_t kind = of_writers ? DDS_BUILTIN_TOPIC_DCPSPUBLICATION : DDS_BUILTIN_TOPIC_DCPSSUBSCRIPTION;
  dds_entity_t reader = dds_create_reader(participant, kind, NULL, NULL);
  if (reader < 0)
    return reader;
  int32_t found = 0;
  void *samples[64] = { NULL };
  dds_sample_info_t infos[64];
  for (;;) {
    int32_t count = dds_take(reader, samples, infos, 64, 64);
    if (count <= 0)
      break;
    for (int32_t i = 0; i < count && !found; i++) {
      const dds_builtintopic_endpoint_t *endpoint = samples[i];
      if (!infos[i].valid_data || infos[i].instance_state != DDS_IST_ALIVE ||
          strcmp(endpoint->topic_name, topic) != 0 ||
          strcmp(endpoint->type_name, descriptors[type]->m_typename) == 0)
        continue;
      strncpy(name, endpoint->type_name, length - 1);
      name[length - 1] = '\0';
      found = 1;
    }
    (void)dds_return_loan(reader, samples, count);
    samples[0] = NULL;
  }
  (void)dds_delete(reader);
  return found;
}

int32_t stripline_dds_take(int32_t reader, struct stripline_dds_sample *sample) {
  struct ddsi_serdata *taken = NULL;
  dds_sample_info_t info;
  int32_t outcome = dds_takecdr(reader, &taken, 1, &info, DDS_ANY_STATE);
  if (outcome <= 0 || taken == NULL)
    return outcome < 0 ? outcome : 0;
  if (!info.valid_data || taken->kind != SDK_DATA) {
    ddsi_serdata_unref(taken);
    return 2;
  }
  ddsrt_iovec_t bytes;
  sample->owner = ddsi_serdata_to_ser_ref(taken, 0, ddsi_serdata_size(taken), &bytes);
  ddsi_serdata_unref(taken);
  sample->bytes = bytes.iov_base;
  sample->length = bytes.iov_len;
  sample->publication = info.publication_handle;
  return 1;
}

void stripline_dds_release(struct stripline_dds_sample *sample) {
  ddsrt_iovec_t bytes = { .iov_base = (void *)sample->bytes, .iov_len = sample->length };
  ddsi_serdata_to_ser_unref(sample->owner, &bytes);
}
