/* Executes AMX's instructions on a processor that has none: each ends in SIGILL, whose handler does
 * what Intel's manual says ("64 and IA-32 Architectures Software Developer's Manual", volume 2).
 *
 * LDTILECFG, TILERELEASE, TILEZERO, TILELOADD, TILESTORED and TDPBF16PS; what a processor would
 * refuse, as tiles that are not configured or whose shapes do not fit, ends the process. */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <ucontext.h>
#include <unistd.h>

long tile_products;

static __thread struct {
    int is_configured;
    uint8_t rows[8];
    uint16_t bytes[8];
    uint8_t data[8][16][64];
} tiles;

static const int REGISTERS[16] = {
    REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
    REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15,
};

static void check(int holds, const char *what, const uint8_t *code) {
    if (holds) return;
    fprintf(stderr, "not executed, %s:", what);
    for (int i = 0; i < 11; i++) fprintf(stderr, " %02x", code[i]);
    fprintf(stderr, "\n");
    _exit(99);
}

static float flushed(float value) {
    return fpclassify(value) == FP_SUBNORMAL ? copysignf(0, value) : value;
}

static float element(const uint8_t *pair, int number) {
    uint32_t bits = (uint32_t)pair[2 * number] << 16 | (uint32_t)pair[2 * number + 1] << 24;
    float value;
    memcpy(&value, &bits, 4);
    return flushed(value);
}

static void configure(const uint8_t *from, const uint8_t *code) {
    check(from[0] == 1, "palette", code);
    memset(&tiles, 0, sizeof tiles);
    for (int i = 1; i < 64; i++) {
        int is_used = (i >= 16 && i < 32) || (i >= 48 && i < 56);
        check(is_used || !from[i], "reserved bytes", code);
    }
    memcpy(tiles.bytes, from + 16, 16);
    memcpy(tiles.rows, from + 48, 8);
    for (int i = 0; i < 8; i++) {
        check(tiles.rows[i] <= 16 && tiles.bytes[i] <= 64, "shape", code);
        check(!tiles.rows[i] == !tiles.bytes[i], "shape", code);
    }
    tiles.is_configured = 1;
}

static void multiply(int sums, int left, int right, const uint8_t *code) {
    int pairs = tiles.bytes[left] / 4, columns = tiles.bytes[sums] / 4;
    check(sums != left && sums != right && left != right, "the same tile", code);
    check(tiles.rows[left] == tiles.rows[sums], "rows", code);
    check(tiles.rows[right] == pairs, "pairs", code);
    check(tiles.bytes[right] == tiles.bytes[sums], "columns", code);
    for (int m = 0; m < tiles.rows[sums]; m++) {
        for (int n = 0; n < columns; n++) {
            float total[2] = {0, 0}, before;
            for (int k = 0; k < pairs; k++)
                for (int i = 0; i < 2; i++)
                    total[i] = flushed(fmaf(element(&tiles.data[left][m][4 * k], i),
                                            element(&tiles.data[right][k][4 * n], i), total[i]));
            memcpy(&before, &tiles.data[sums][m][4 * n], 4);
            before = flushed(flushed(before) + flushed(total[0] + total[1]));
            memcpy(&tiles.data[sums][m][4 * n], &before, 4);
        }
        memset(&tiles.data[sums][m][4 * columns], 0, 64 - 4 * columns);
    }
    memset(tiles.data[sums][tiles.rows[sums]], 0, 64 * (16 - tiles.rows[sums]));
    __atomic_fetch_add(&tile_products, 1, __ATOMIC_RELAXED);
}

static void execute(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *code = (const uint8_t *)registers[REG_RIP], *next = code + 5;
    /* VEX in three bytes, map 0F38, W0, 128 bits. */
    int is_known = code[0] == 0xc4 && (code[1] & 31) == 2 && !(code[2] & 0x84);
    check(is_known, "no instruction of tiles", code);
    int prefix = code[2] & 3, operation = code[3], other = ~(code[2] >> 3) & 15;
    int mode = code[4] >> 6, tile = code[4] >> 3 & 7, low = code[4] & 7;
    uint8_t *address = 0;
    int64_t stride = 0;
    if (mode != 3) {
        int base = low | (code[1] & 0x20 ? 0 : 8), has_base = 1;
        int32_t shift = 0;
        check(low == 4 || low != 5 || mode, "relative address", code);
        if (low == 4) {
            int scaled = *next++, index = (scaled >> 3 & 7) | (code[1] & 0x40 ? 0 : 8);
            base = (scaled & 7) | (base & 8);
            has_base = (scaled & 7) != 5 || mode;
            if (index != 4) stride = registers[REGISTERS[index]] << (scaled >> 6);
        }
        if (mode == 1) shift = (int8_t)*next++;
        if (mode == 2 || !has_base) memcpy(&shift, next, 4), next += 4;
        address = (uint8_t *)((has_base ? registers[REGISTERS[base]] : 0) + shift);
    }
    if (operation == 0x49 && prefix == 0 && mode != 3) {
        configure(address, code);
    } else if (operation == 0x49 && prefix == 0) {
        memset(&tiles, 0, sizeof tiles);
    } else {
        check(tiles.is_configured && tiles.rows[tile], "no configuration", code);
        if (operation == 0x49 && prefix == 3 && mode == 3) {
            memset(tiles.data[tile], 0, sizeof tiles.data[tile]);
        } else if (operation == 0x4b && prefix == 3) {
            memset(tiles.data[tile], 0, sizeof tiles.data[tile]);
            for (int i = 0; i < tiles.rows[tile]; i++)
                memcpy(tiles.data[tile][i], address + i * stride, tiles.bytes[tile]);
        } else if (operation == 0x4b && prefix == 2) {
            for (int i = 0; i < tiles.rows[tile]; i++)
                memcpy(address + i * stride, tiles.data[tile][i], tiles.bytes[tile]);
        } else if (operation == 0x5c && prefix == 2 && mode == 3) {
            multiply(tile, low, other, code);
        } else {
            check(0, "another instruction", code);
        }
    }
    registers[REG_RIP] = (greg_t)next;
}

void execute_tile_instructions(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = execute;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGILL, &action, 0);
}
