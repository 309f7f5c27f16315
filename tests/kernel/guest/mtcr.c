/*
 * Reads registers with the library of mstflint:
 *
 *   mtcr LIBRARY LID < REQUESTS
 *
 * A request is a line with the register ID, its length in octets, and the first two words of 32 bits.
 * The program prints the words of the register as a line. All numbers but the LID are hexadecimal.
 *
 * The tools mstreg and mstlink of Debian's mstflint refuse every device that they reach by LID: their
 * build leaves out the query of the chip that they send first, and AccessRegisterGMP. The library has
 * the function that sends it, through libibmad. Test code of the guest.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>

#define GET 1

int main(int count, char **arguments)
{
	unsigned int id, octets, first[2], at;
	void *library, *file;
	char device[32];
	void *(*mopen)(const char *);
	int (*access_register)(void *, uint32_t *, uint32_t, uint32_t, int, int *);

	if (count != 3)
		return 2;
	library = dlopen(arguments[1], RTLD_NOW);
	if (!library) {
		fprintf(stderr, "%s\n", dlerror());
		return 2;
	}
	mopen = dlsym(library, "mopen");
	access_register = dlsym(library, "mib_send_gmp_access_reg_mad");
	if (!mopen || !access_register)
		return 2;
	snprintf(device, sizeof(device), "lid-%s", arguments[2]);
	file = mopen(device);
	if (!file) {
		perror("mopen");
		return 1;
	}
	while (scanf("%x %x %x %x", &id, &octets, &first[0], &first[1]) == 4) {
		uint32_t data[256] = { htonl(first[0]), htonl(first[1]) };
		int status = 0, result = access_register(file, data, octets, id, GET, &status);

		if (result || status)
			printf("result %#x, status %#x", result, status);
		for (at = 0; !result && !status && at < octets / 4; at++)
			printf("%s%08x", at ? " " : "", ntohl(data[at]));
		putchar('\n');
	}
	return 0;
}
