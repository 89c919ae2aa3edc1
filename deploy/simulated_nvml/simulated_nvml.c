/* A simulated NVML: the ABI of libnvidia-ml.so.1 as far as nvidia-ml-py and the node agent call
   it, answering from the text file named by LEASEHOLD_SIMULATED_NVML_STATE (see README.txt).

   Struct layouts are NVIDIA's and must not change. A device handle points into `devices`;
   nothing else is handed out, so any other pointer is refused rather than followed. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

enum result {
    SUCCESS = 0,
    UNINITIALIZED = 1,
    INVALID_ARGUMENT = 2,
    NOT_SUPPORTED = 3,
    NOT_FOUND = 6,
    INSUFFICIENT_SIZE = 7,
    DRIVER_NOT_LOADED = 9,
    GPU_IS_LOST = 15,
    UNKNOWN = 999,
};

enum { DEVICES_MAX = 64, KEY_MAX = 128, VALUE_MAX = 256, NO_INSTANCE = -1 };

typedef struct { char unused; } device;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct {
    unsigned pid;
    unsigned long long used;
    unsigned gpu_instance, compute_instance;
} process;
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char bus_id[32];
} pci;

_Static_assert(sizeof(memory_v2) == 40, "nvmlMemory_v2_t");
_Static_assert(sizeof(process) == 24, "nvmlProcessInfo_t");
_Static_assert(sizeof(pci) == 68, "nvmlPciInfo_t");

static device devices[DEVICES_MAX];
static _Atomic int users;  /* successful inits not yet shut down */
static char *state;  /* the file's text, with a newline in front so that every key has one */
static struct stat state_seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* The symbol by which a caller can tell that this library is not NVIDIA's. */
const char *leaseholdSimulatedNvml(void) { return "leasehold-simulated"; }

/* ---- the state file ---- */

static int unchanged(const struct stat *now) {
    return state && now->st_ino == state_seen.st_ino && now->st_size == state_seen.st_size &&
           now->st_mtim.tv_sec == state_seen.st_mtim.tv_sec &&
           now->st_mtim.tv_nsec == state_seen.st_mtim.tv_nsec;
}

/* Read the file again if it changed; a file that cannot be read leaves the last state in force. */
static void refresh(void) {
    const char *path = getenv("LEASEHOLD_SIMULATED_NVML_STATE");
    FILE *file = path ? fopen(path, "r") : NULL;
    struct stat now;
    if (!file) return;
    if (fstat(fileno(file), &now) == 0 && !unchanged(&now)) {
        char *text = malloc((size_t)now.st_size + 2);
        if (text) {
            text[0] = '\n';
            size_t length = fread(text + 1, 1, (size_t)now.st_size, file);
            text[length + 1] = '\0';
            free(state);
            state = text;
            state_seen = now;
        }
    }
    fclose(file);
}

/* Copy the value of `key`; false if the file does not have it. */
static int find(const char *key, char value[VALUE_MAX]) {
    char line_start[KEY_MAX + 3];
    int found = 0;
    snprintf(line_start, sizeof line_start, "\n%s=", key);
    pthread_mutex_lock(&lock);
    refresh();
    char *at = state ? strstr(state, line_start) : NULL;
    if (at) {
        at += strlen(line_start);
        size_t length = strcspn(at, "\r\n");
        if (length >= VALUE_MAX) length = VALUE_MAX - 1;
        memcpy(value, at, length);
        value[length] = '\0';
        found = 1;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

static int find_of(const device *gpu, const char *name, char value[VALUE_MAX]) {
    char key[KEY_MAX];
    snprintf(key, sizeof key, "gpu.%d.%s", (int)(gpu - devices), name);
    return find(key, value);
}

static int usable(const device *gpu) {
    char value[VALUE_MAX];
    if (!users) return UNINITIALIZED;
    if (gpu < devices || gpu >= devices + DEVICES_MAX) return INVALID_ARGUMENT;
    return find_of(gpu, "error", value) ? atoi(value) : SUCCESS;
}

/* ---- answers of one kind ---- */

static int text_of(const device *gpu, const char *name, char *out, unsigned size) {
    char value[VALUE_MAX];
    int result = usable(gpu);
    if (result) return result;
    if (!find_of(gpu, name, value)) return NOT_SUPPORTED;
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return SUCCESS;
}

static int number_of(const device *gpu, const char *name, unsigned long long *out) {
    char value[VALUE_MAX];
    int result = usable(gpu);
    if (result) return result;
    if (!find_of(gpu, name, value)) return NOT_SUPPORTED;
    *out = strtoull(value, NULL, 0);
    return SUCCESS;
}

static int unsigned_of(const device *gpu, const char *name, unsigned *out) {
    unsigned long long number;
    int result = number_of(gpu, name, &number);
    if (result == SUCCESS) *out = (unsigned)number;
    return result;
}

/* ---- the library and the system ---- */

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    char value[VALUE_MAX];
    if (!find("gpu_count", value)) return DRIVER_NOT_LOADED;
    users++;
    return SUCCESS;
}

int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }

int nvmlShutdown(void) {
    if (!users) return UNINITIALIZED;
    users--;
    return SUCCESS;
}

const char *nvmlErrorString(int result) {
    switch (result) {
    case SUCCESS: return "Success";
    case UNINITIALIZED: return "Uninitialized";
    case INVALID_ARGUMENT: return "Invalid Argument";
    case NOT_SUPPORTED: return "Not Supported";
    case NOT_FOUND: return "Not Found";
    case INSUFFICIENT_SIZE: return "Insufficient Size";
    case DRIVER_NOT_LOADED: return "Driver Not Loaded";
    case GPU_IS_LOST: return "GPU is lost";
    default: return "Unknown Error";
    }
}

int nvmlSystemGetDriverVersion(char *out, unsigned size) {
    char value[VALUE_MAX];
    if (!users) return UNINITIALIZED;
    if (!find("driver_version", value)) return NOT_SUPPORTED;
    return snprintf(out, size, "%s", value) < (int)size ? SUCCESS : INSUFFICIENT_SIZE;
}

int nvmlSystemGetNVMLVersion(char *out, unsigned size) {
    return snprintf(out, size, "13.%s", leaseholdSimulatedNvml()) < (int)size ? SUCCESS
                                                                              : INSUFFICIENT_SIZE;
}

/* ---- finding devices ---- */

int nvmlDeviceGetCount_v2(unsigned *count) {
    char value[VALUE_MAX];
    if (!users) return UNINITIALIZED;
    *count = find("gpu_count", value) ? (unsigned)strtoul(value, NULL, 10) : 0;
    if (*count > DEVICES_MAX) *count = DEVICES_MAX;
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **gpu) {
    unsigned count;
    int result = nvmlDeviceGetCount_v2(&count);
    if (result) return result;
    if (index >= count) return INVALID_ARGUMENT;
    *gpu = &devices[index];
    return usable(*gpu);
}

int nvmlDeviceGetHandleByUUID(const char *uuid, device **gpu) {
    char value[VALUE_MAX];
    unsigned count;
    int result = nvmlDeviceGetCount_v2(&count);
    if (result) return result;
    for (unsigned index = 0; index < count; index++)
        if (find_of(&devices[index], "uuid", value) && strcasecmp(value, uuid) == 0)
            return nvmlDeviceGetHandleByIndex_v2(index, gpu);
    return NOT_FOUND;
}

int nvmlDeviceGetIndex(device *gpu, unsigned *index) {
    int result = usable(gpu);
    if (result == SUCCESS) *index = (unsigned)(gpu - devices);
    return result;
}

/* ---- one device ---- */

int nvmlDeviceGetName(device *gpu, char *out, unsigned size) {
    return text_of(gpu, "name", out, size);
}

int nvmlDeviceGetUUID(device *gpu, char *out, unsigned size) {
    return text_of(gpu, "uuid", out, size);
}

int nvmlDeviceGetSerial(device *gpu, char *out, unsigned size) {
    return text_of(gpu, "serial", out, size);
}

int nvmlDeviceGetMinorNumber(device *gpu, unsigned *out) {
    return unsigned_of(gpu, "minor", out);
}

int nvmlDeviceGetPowerUsage(device *gpu, unsigned *out) {
    return unsigned_of(gpu, "power_milliwatts", out);
}

int nvmlDeviceGetTemperature(device *gpu, unsigned sensor, unsigned *out) {
    return sensor == 0 ? unsigned_of(gpu, "temperature_celsius", out) : INVALID_ARGUMENT;
}

int nvmlDeviceGetUtilizationRates(device *gpu, utilization *out) {
    out->memory = 0;
    return unsigned_of(gpu, "utilisation_percent", &out->gpu);
}

int nvmlDeviceGetMemoryInfo(device *gpu, memory *out) {
    int result = number_of(gpu, "memory_bytes_total", &out->total);
    if (result) return result;
    result = number_of(gpu, "memory_bytes_used", &out->used);
    out->free = out->total > out->used ? out->total - out->used : 0;
    return result;
}

int nvmlDeviceGetMemoryInfo_v2(device *gpu, memory_v2 *out) {
    memory info;
    int result = nvmlDeviceGetMemoryInfo(gpu, &info);
    if (result) return result;
    out->total = info.total;
    out->reserved = 0;
    out->free = info.free;
    out->used = info.used;
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(device *gpu, pci *out) {
    memset(out, 0, sizeof *out);
    int result = text_of(gpu, "pci_bus_id", out->bus_id, sizeof out->bus_id);
    if (result) return result;
    if (sscanf(out->bus_id, "%x:%x:%x", &out->domain, &out->bus, &out->device) != 3) return UNKNOWN;
    snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "%04X:%02X:%02X.0",
             out->domain & 0xffff, out->bus & 0xff, out->device & 0xff);
    return SUCCESS;
}

int nvmlDeviceGetMigMode(device *gpu, unsigned *current, unsigned *pending) {
    (void)current;
    (void)pending;
    int result = usable(gpu);
    return result ? result : NOT_SUPPORTED;
}

/* As NVML: too small a buffer answers the size needed, and the caller asks again. */
int nvmlDeviceGetComputeRunningProcesses_v3(device *gpu, unsigned *count, process *out) {
    char name[KEY_MAX], value[VALUE_MAX];
    unsigned room = out ? *count : 0, found = 0;
    int result = usable(gpu);
    if (result) return result;
    for (;; found++) {
        snprintf(name, sizeof name, "process.%u", found);
        if (!find_of(gpu, name, value)) break;
        if (found >= room) continue;
        process *entry = &out[found];
        entry->gpu_instance = entry->compute_instance = (unsigned)NO_INSTANCE;
        if (sscanf(value, "%u,%llu", &entry->pid, &entry->used) != 2) return UNKNOWN;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}
